//! A drive in memory, open to everybody on a loopback port, for running WebDAV test suites against the face alone:
//!
//! ```text
//! cargo run -p holdfast-dav --example open_dav -- 127.0.0.1:8180
//! litmus http://127.0.0.1:8180/dav/ana/
//! ```

#[path = "../tests/all/rig/mod.rs"]
mod rig;

use holdfast_base::SystemClock;
use hyper::service::service_fn;
use hyper_util::rt::TokioIo;
use std::convert::Infallible;
use std::sync::Arc;
use tokio::net::TcpListener;

#[tokio::main]
async fn main() -> Result<(), Box<dyn std::error::Error>> {
    let address = std::env::args().nth(1).unwrap_or_else(|| "127.0.0.1:8180".into());
    let rig = rig::Rig::new(Arc::new(SystemClock)).await;
    let listener = TcpListener::bind(&address).await?;
    println!("http://{}/dav/ana/", listener.local_addr()?);
    loop {
        let (socket, _) = listener.accept().await?;
        socket.set_nodelay(true)?;
        let (face, who) = (rig.face.clone(), rig.who.clone());
        tokio::spawn(async move {
            let service = service_fn(|request| {
                let (face, who) = (face.clone(), who.clone());
                async move { Ok::<_, Infallible>(face.handle(who, request).await) }
            });
            // A connection that breaks is its client's business.
            let _ = hyper::server::conn::http1::Builder::new().serve_connection(TokioIo::new(socket), service).await;
        });
    }
}
