//! Which plane a drive is reached by: the one that was found to be better lately, otherwise the one that suits the distance, and gets through.
//!
//! A server that TCP reaches within [`NEAR`] is reached by that, unless much is lost. To others QUIC is begun, and TCP as well where QUIC has not answered a moment after TCP did ([`HEAD_START`]): whichever is
//! there first is used. Where that is TCP, QUIC has its whole time nevertheless ([`QUIC_TIME`]): where much is lost its handshake may take so long, and it is the better one there.
//! So nobody waits long where UDP is closed, and nothing wrong is remembered where it is not. Whoever says that UDP does not get through is believed.

use super::chosen::{Chosen, Memory, Why};
use super::connect::{DEADLINE, Reach};
use holdfast_base::{DrivePath, Error, ErrorKind, Result};
use holdfast_remote::client::{Options, Plane, Space, Verdict};
use holdfast_remote::wire::Seen;
use std::pin::pin;
use std::time::{Duration, SystemTime};
use tokio::task::JoinHandle;
use tokio::time::{Instant, sleep, timeout};

/// Within this time a server is near, where TCP takes less work than the plane and loses nothing by it.
const NEAR: Duration = Duration::from_millis(5);
/// Within this time a near server is connected to, which takes three round trips, and a little of its own; otherwise QUIC is begun, in case that it is not near.
const NEAR_OPENS: Duration = Duration::from_millis(50);
/// How long the plane has to answer, from when TCP did.
const QUIC_TIME: Duration = Duration::from_secs(10);
/// How many times as long as TCP took QUIC has before TCP is used meanwhile, and this long at least. A handshake takes two round trips where nothing is lost, and what the first questions
/// take is two more; the time is for the first of its repeats.
const HEAD_START: (u32, Duration) = (5, Duration::from_secs(1));

/// A space that is connected to, and what was seen in it meanwhile.
pub(super) type Opened = (Space, Option<Seen>);

/// How a space was connected to.
pub(super) struct Choice {
    pub(super) opened: Opened,
    pub(super) chosen: Chosen,
    /// QUIC, if it has not answered yet.
    pub(super) late: Option<Late>,
}

impl Choice {
    const fn new(opened: Opened, plane: Plane, why: Why) -> Self {
        Self { opened, chosen: Chosen::new(plane, why), late: None }
    }
}

/// A connection by QUIC that is being made. Dropping it gives it up.
pub(super) struct Late {
    task: JoinHandle<Result<Opened>>,
    began: Instant,
    /// What is chosen once it is there.
    chosen: Chosen,
}

impl Drop for Late {
    fn drop(&mut self) {
        self.task.abort();
    }
}

impl Late {
    fn begin(options: &Options, reach: &Reach, (path, contents): (&DrivePath, usize), chosen: Chosen) -> Self {
        let (options, reach, path) = (options.clone(), reach.clone(), path.clone());
        let task = tokio::spawn(async move { open_by(Plane::Quic, &options, &reach, (&path, contents)).await });
        Self { task, began: Instant::now(), chosen }
    }

    async fn opened(&mut self) -> Result<Opened> {
        (&mut self.task).await.map_err(|error| Error::internal("a task was lost").with_source(error))?
    }

    /// The choice of it; none if it does not get through.
    async fn choice(&mut self) -> Result<Option<Choice>> {
        match self.opened().await {
            Ok(opened) => Ok(Some(Choice { opened, chosen: self.chosen, late: None })),
            Err(error) if is_no_matter_of_transport(&error) => Err(error),
            Err(error) => {
                tracing::info!(%error, "over TCP, as the plane of QUIC does not answer");
                Ok(None)
            }
        }
    }

    /// The space and what is chosen with it, if it is there within the time that QUIC has.
    pub(super) async fn in_time(mut self) -> Option<(Space, Chosen)> {
        let left = QUIC_TIME.saturating_sub(self.began.elapsed());
        let (space, _) = timeout(left, self.opened()).await.ok()?.ok()?;
        Some((space, self.chosen))
    }
}

pub(super) async fn open(options: &Options, reach: &Reach, look: (&DrivePath, usize)) -> Result<Opened> {
    Space::connect(options, reach.connections, &reach.token, look).await
}

async fn open_by(plane: Plane, options: &Options, reach: &Reach, look: (&DrivePath, usize)) -> Result<Opened> {
    open(&Options { plane, ..options.clone() }, reach, look).await
}

fn is_no_matter_of_transport(error: &Error) -> bool {
    matches!(error.kind(), ErrorKind::Unauthenticated | ErrorKind::Forbidden | ErrorKind::NotFound)
}

/// Connects by whichever plane is the right one.
pub(super) async fn choose(
    options: &Options,
    reach: &Reach,
    look: (&DrivePath, usize),
    memory: &Memory,
) -> Result<Choice> {
    if !options.target.is_encrypted() {
        return Ok(Choice::new(open(options, reach, look).await?, Plane::Tcp, Why::Near));
    }
    let known = memory.recall(SystemTime::now());
    if let Some(known) = known.filter(|known| known.plane == Plane::Tcp) {
        match timeout(QUIC_TIME, open_by(Plane::Tcp, options, reach, look)).await {
            Ok(Ok(opened)) => return Ok(Choice { opened, chosen: known, late: None }),
            Ok(Err(error)) if is_no_matter_of_transport(&error) => return Err(error),
            // The network is another one.
            _ => memory.forget(),
        }
    }
    let choice = by_plane(options, reach, look, known.filter(|known| known.plane == Plane::Quic)).await?;
    // One that is late has its time first.
    if choice.chosen.why == Why::Blocked && choice.late.is_none() {
        memory.keep(choice.chosen, SystemTime::now());
    }
    Ok(choice)
}

/// By the plane of QUIC, if the server is far, or hard to reach by TCP, or if that is known to be better, and if it gets through; otherwise by TCP.
async fn by_plane(
    options: &Options,
    reach: &Reach,
    look: (&DrivePath, usize),
    better: Option<Chosen>,
) -> Result<Choice> {
    let began = Instant::now();
    let mut reached = pin!(timeout(QUIC_TIME, options.target.reach()));
    let mut ended = None;
    if better.is_none() {
        ended = timeout(NEAR, &mut reached).await.ok().map(|reached| matches!(reached, Ok(Ok(()))));
        // Who looks late, on a busy machine, finds both: that it is reached, and that the time is over.
        if ended == Some(true) && began.elapsed() <= NEAR {
            return near(options, reach, look).await;
        }
    }
    let mut quic = Late::begin(options, reach, look, better.unwrap_or(Chosen::new(Plane::Quic, Why::Far)));
    let head_start = async {
        let is_reached = match ended {
            Some(is_reached) => is_reached,
            None => matches!(reached.await, Ok(Ok(()))),
        };
        let takes = (HEAD_START.0 * began.elapsed()).clamp(HEAD_START.1, QUIC_TIME);
        // Where TCP does not get through either, there is nothing to hurry to.
        sleep(if is_reached { takes } else { DEADLINE }).await;
    };
    let refused = tokio::select! {
        biased;
        choice = quic.choice() => match choice? {
            Some(choice) => return Ok(choice),
            None => true,
        },
        () = options.target.refuses_udp() => true,
        () = head_start => false,
    };
    let mut tcp = pin!(open_by(Plane::Tcp, options, reach, look));
    if refused {
        return Ok(Choice::new(tcp.await?, Plane::Tcp, Why::Blocked));
    }
    let opened = tokio::select! {
        biased;
        choice = quic.choice() => match choice? {
            Some(choice) => return Ok(choice),
            None => return Ok(Choice::new(tcp.await?, Plane::Tcp, Why::Blocked)),
        },
        opened = &mut tcp => opened,
    };
    match opened {
        Ok(opened) => Ok(Choice { late: Some(quic), ..Choice::new(opened, Plane::Tcp, Why::Blocked) }),
        Err(error) if is_no_matter_of_transport(&error) => Err(error),
        Err(error) => quic.choice().await?.ok_or(error),
    }
}

/// By TCP; or by the plane of QUIC, if TCP does not answer within its head start and that does: much is lost, though the server is near. Where the packet that made it look near was only one that
/// overtook others, QUIC follows.
async fn near(options: &Options, reach: &Reach, look: (&DrivePath, usize)) -> Result<Choice> {
    let begin = |why| Late::begin(options, reach, look, Chosen::new(Plane::Quic, why));
    let is_far = |(space, _): &Opened| space.smoothed_rtt().is_some_and(|rtt| rtt > NEAR * 2);
    let by_tcp = |opened| Choice::new(opened, Plane::Tcp, Why::Near);
    let mut tcp = pin!(open_by(Plane::Tcp, options, reach, look));
    if let Ok(opened) = timeout(NEAR_OPENS, &mut tcp).await {
        let opened = opened?;
        return Ok(Choice { late: is_far(&opened).then(|| begin(Why::Far)), ..by_tcp(opened) });
    }
    let mut quic = begin(Why::Lossy);
    let opened = tokio::select! {
        biased;
        opened = &mut tcp => opened,
        () = sleep(HEAD_START.1) => tokio::select! {
            biased;
            opened = &mut tcp => opened,
            choice = quic.choice() => match choice? {
                Some(choice) => return Ok(choice),
                None => return Ok(by_tcp(tcp.await?)),
            },
        },
    }?;
    quic.chosen.why = Why::Far;
    Ok(Choice { late: is_far(&opened).then_some(quic), ..by_tcp(opened) })
}

/// What a plane is chosen for, and what is remembered of it, when something was found out about one.
pub(super) fn after(chosen: Chosen, about: Plane, verdict: Verdict) -> Chosen {
    match verdict {
        Verdict::Faster => Chosen::new(about, Why::Faster),
        Verdict::Left => Chosen::new(about, Why::Blocked),
        Verdict::Lossy => Chosen::new(about, Why::Lossy),
        Verdict::Blocked if about == Plane::Quic => Chosen::new(chosen.plane, Why::Blocked),
        // It is the faster one still.
        Verdict::Blocked | Verdict::Same if matches!(chosen.why, Why::Faster | Why::Lossy) => chosen,
        Verdict::Blocked | Verdict::Same => Chosen::new(chosen.plane, Why::Compared),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_found_out_decides_and_says_why() {
        let (near, far) = (Chosen::new(Plane::Tcp, Why::Near), Chosen::new(Plane::Quic, Why::Far));
        let (faster, lossy) = (Chosen::new(Plane::Tcp, Why::Faster), Chosen::new(Plane::Quic, Why::Lossy));
        for (chosen, about, verdict, plane, why) in [
            (far, Plane::Tcp, Verdict::Faster, Plane::Tcp, Why::Faster),
            (far, Plane::Tcp, Verdict::Same, Plane::Quic, Why::Compared),
            (far, Plane::Tcp, Verdict::Blocked, Plane::Quic, Why::Compared),
            (far, Plane::Tcp, Verdict::Left, Plane::Tcp, Why::Blocked),
            (near, Plane::Quic, Verdict::Faster, Plane::Quic, Why::Faster),
            (near, Plane::Quic, Verdict::Same, Plane::Tcp, Why::Compared),
            (near, Plane::Quic, Verdict::Blocked, Plane::Tcp, Why::Blocked),
            (near, Plane::Quic, Verdict::Lossy, Plane::Quic, Why::Lossy),
            (lossy, Plane::Tcp, Verdict::Same, Plane::Quic, Why::Lossy),
            (lossy, Plane::Tcp, Verdict::Faster, Plane::Tcp, Why::Faster),
            (faster, Plane::Quic, Verdict::Same, Plane::Tcp, Why::Faster),
            (faster, Plane::Quic, Verdict::Faster, Plane::Quic, Why::Faster),
        ] {
            assert_eq!(after(chosen, about, verdict), Chosen::new(plane, why), "{chosen:?} {about:?} {verdict:?}");
        }
    }
}
