//! What is done when the plane of QUIC falls silent in the middle of something: UDP may be closed by now, or the network gone, or the server.
//!
//! Both transports are begun anew, beside the connection that there is. If that speaks again, all stays as it was. If QUIC answers, it goes on by that; if TCP does, and QUIC not within
//! [`GRACE`] after it, by TCP: where much is lost, and after the network was away, TCP may be the first by chance, and would be the slower one for the rest.
//!
//! What was under way is not waited for: blocks are asked for again by the other, and an upload goes on at what the server has.

use super::Plane;
use super::pools::{Pools, Verdict};
use super::trial::Reach;
use std::sync::Weak;
use std::time::Duration;
use tokio::time::sleep;

/// Both ends of the plane say something each second; at 64 % loss, one of eight such silences is chance, and costs two handshakes.
pub(super) const SILENT: Duration = Duration::from_secs(5);
/// How much later than TCP the plane may answer.
const GRACE: Duration = Duration::from_secs(10);
/// The connection that there is speaks again when its silence is shorter.
const SPEAKS: Duration = Duration::from_secs(1);
/// Between two looks at it.
const LOOK: Duration = Duration::from_millis(250);

/// Looks for a way that is not silent, and uses that from now on; answers which it is, or none if there is no other.
pub(super) async fn choose_again(pools: &Weak<Pools>, ways: &impl Reach) -> Option<Plane> {
    tracing::info!("the plane of QUIC is silent: both transports are tried anew");
    let by_tcp = async {
        let tcp = ways.connect(Plane::Tcp).await?;
        sleep(GRACE).await;
        Ok::<_, holdfast_base::Error>(tcp)
    };
    let either = async {
        tokio::select! {
            Ok(quic) = ways.connect(Plane::Quic) => Some(quic),
            Ok(tcp) = by_tcp => Some(tcp),
            else => None,
        }
    };
    let found = tokio::select! {
        biased;
        () = speaks(pools) => None,
        found = either => found,
    }?;
    let pools = pools.upgrade()?;
    let plane = found.plane();
    pools.switch(found).give_up();
    tracing::info!(?plane, "what is left goes by this");
    if plane == Plane::Tcp {
        pools.tell(plane, Verdict::Left);
    }
    Some(plane)
}

/// Waits until the connection that there is speaks again, nobody needs it, or it is dropped.
async fn speaks(pools: &Weak<Pools>) {
    loop {
        sleep(LOOK).await;
        let silence = pools.upgrade().and_then(|pools| pools.used().silence());
        if silence.is_none_or(|silence| silence < SPEAKS) {
            return;
        }
    }
}
