//! Runs the random workload against any `WebDAV` server without TLS.
//!
//! `webdav_model ADDRESS FOLDER SEED [NAME PASSWORD]`: FOLDER exists and is empty. With `NO_LOCKS`
//! in the environment no locks are taken: Apache, for one, has its own ideas about them.

use holdfast_testkit::http::Client;
use holdfast_testkit::model::{Weights, Workload};

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let [address, folder, seed, account @ ..] = arguments.as_slice() else {
        return Err("usage: webdav_model ADDRESS FOLDER SEED [NAME PASSWORD]".into());
    };
    let mut client = Client::new(address.parse()?);
    if let [name, password] = account {
        client = client.with_account(name, password);
    }
    let mut workload = Workload { seed: seed.parse()?, ..Workload::default() };
    if std::env::var_os("NO_LOCKS").is_some() {
        workload.weights = Weights::default().without_locks();
    }
    let done = workload.run(&client, folder)?;
    println!("{done} operations done, every answer and the whole tree as expected");
    Ok(())
}
