//! Which processes are in a sandbox, as the caller's `/proc` numbers them.

use std::fs;

/// Most processes that are looked at; more are too many.
pub(crate) const PROCESSES_MAX: usize = 100_000;

/// A process and all that it and its children started; without parents, they are the first process's.
pub(crate) fn below(init: i32) -> Vec<i32> {
    let (mut all, mut at) = (vec![init], 0);
    while at < all.len() && all.len() < PROCESSES_MAX {
        let tasks = fs::read_dir(format!("/proc/{}/task", all[at])).into_iter().flatten().flatten();
        for task in tasks {
            let children = fs::read_to_string(task.path().join("children")).unwrap_or_default();
            all.extend(children.split_whitespace().filter_map(|number| number.parse::<i32>().ok()));
        }
        at += 1;
    }
    all
}
