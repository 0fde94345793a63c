//! Puts a slow link before a service: `slow_link LISTEN SERVICE DELAY_MS MBIT`, until it is stopped.

use holdfast_testkit::services::link::{LinkOptions, run};
use std::net::TcpListener;
use std::time::Duration;

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let [listen, service, delay_ms, mbit] = arguments.as_slice() else {
        return Err("usage: slow_link LISTEN SERVICE DELAY_MS MBIT".into());
    };
    let options = LinkOptions { delay: Duration::from_secs_f64(delay_ms.parse::<f64>()? / 1e3), mbit: mbit.parse()? };
    if options.mbit.is_nan() || options.mbit <= 0.0 {
        return Err("the rate must be above 0".into());
    }
    Ok(run(&TcpListener::bind(listen)?, service.parse()?, options)?)
}
