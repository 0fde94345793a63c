//! A thousand calls, sixteen at a time: every answer is that of its call, and nothing is left.

use crate::support::{Ground, block_on, named, until};
use holdfast_function::End;
use holdfast_testkit::alone::{alone, mounts};
use std::fs;
use std::io::Cursor;
use std::time::Duration;

const CALLS: usize = 1_000;
const AT_A_TIME: usize = 16;

fn descriptors() -> usize {
    fs::read_dir("/proc/self/fd").expect("there").count()
}

/// Processes that this one started.
fn children() -> usize {
    let tasks = fs::read_dir("/proc/self/task").expect("there").flatten();
    let of = |task: fs::DirEntry| {
        fs::read_to_string(task.path().join("children")).unwrap_or_default().split_whitespace().count()
    };
    tasks.map(of).sum()
}

#[test]
fn a_thousand_calls_at_sixteen_leave_nothing_behind() {
    if !alone("many::a_thousand_calls_at_sixteen_leave_nothing_behind").expect("nothing is left") {
        return;
    }
    for warm in [0, 4] {
        let ground = Ground::new();
        ground.deploy("f", "exec cat", &format!("[limits]\nconcurrency = {AT_A_TIME}\nwarm = {warm}\n"), "");
        block_on(async {
            let host = ground.host();
            // What is made once is there before it is counted.
            host.invoke(&named("f"), "", |_| Ok(()), &b"x"[..]).await.expect("a call");
            until("those that are ready", || host.state(&named("f")).ready == warm).await;
            let before = (descriptors(), mounts(), children());
            let lanes: Vec<_> = (0..AT_A_TIME)
                .map(|lane| {
                    let host = host.clone();
                    tokio::spawn(async move {
                        for number in (lane..CALLS).step_by(AT_A_TIME) {
                            let input = number.to_string().repeat(1 + number % 2_000);
                            let (name, bytes) = (named("f"), Cursor::new(input.clone().into_bytes()));
                            let call = host.invoke(&name, "", |_| Ok(()), bytes);
                            let call = call.await.expect("a call");
                            assert_eq!(call.end, End::Done);
                            assert!(call.output == input.as_bytes(), "the answer of another call");
                        }
                    })
                })
                .collect();
            for lane in lanes {
                lane.await.expect("no panic");
            }
            until("those that are ready", || host.state(&named("f")).ready == warm).await;
            until("what was there before", || (descriptors(), mounts(), children()) == before).await;
            let records = ground.store.records(&named("f")).last(2 * CALLS, |record| record.ok).expect("read");
            assert_eq!(records.len(), CALLS + 1);
            host.stop(Duration::from_secs(5)).await;
        });
    }
}
