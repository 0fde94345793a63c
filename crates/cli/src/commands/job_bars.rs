//! What runs of jobs say while they are under way: a line for each on a terminal, one JSON object a line for programs, words otherwise.

use super::job_show::{notice_json, notice_words, progress_words};
use crate::output;
use holdfast_jobs::runner::Notice;
use holdfast_jobs::store::RunRow;
use indicatif::{MultiProgress, ProgressBar, ProgressStyle};
use std::collections::BTreeMap;
use std::io::IsTerminal;

/// Shows notices.
pub(super) struct JobBars {
    json: bool,
    /// On a terminal: lines of runs that are under way.
    lines: Option<(MultiProgress, BTreeMap<i64, ProgressBar>)>,
}

impl JobBars {
    pub(super) fn new(json: bool) -> Self {
        let is_terminal = !json && std::io::stderr().is_terminal();
        Self { json, lines: is_terminal.then(|| (MultiProgress::new(), BTreeMap::new())) }
    }

    /// Says something beside the lines.
    pub(super) fn beside(&self, say: impl FnOnce()) {
        match &self.lines {
            Some((all, _)) => all.suspend(say),
            None => say(),
        }
    }

    pub(super) fn show(&mut self, notice: &Notice) {
        match notice {
            Notice::Progress(run) if !self.json => self.draw(run),
            notice => {
                if let (Notice::Ended(run), Some((_, lines))) = (notice, &mut self.lines)
                    && let Some(line) = lines.remove(&run.id)
                {
                    line.finish_and_clear();
                }
                self.beside(|| {
                    output::print(&if self.json { notice_json(notice).to_string() } else { notice_words(notice) });
                });
            }
        }
    }

    /// Nobody reads a line every two seconds in a log.
    fn draw(&mut self, run: &RunRow) {
        let Some((all, lines)) = &mut self.lines else { return };
        let line = lines.entry(run.id).or_insert_with(|| {
            let style = ProgressStyle::with_template("[{bar:24}] {wide_msg}");
            all.add(ProgressBar::new(0).with_style(style.unwrap_or_else(|_| ProgressStyle::default_bar())))
        });
        if let Some(live) = &run.done.live {
            line.set_length(live.found_bytes.max(1));
            line.set_position(live.settled_bytes);
        }
        line.set_message(format!("{}: {}", run.job, progress_words(run)));
    }
}
