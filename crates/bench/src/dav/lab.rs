//! What the WebDAV workloads share: the frame, one bay for each target, test data, and what is stored.

use std::sync::Arc;
use std::sync::atomic::AtomicBool;

use anyhow::Context;

use super::DavOptions;
use super::bay::Bay;
use super::session::Failure;
use crate::baseline::BaselineRow;
use crate::data::{self, DataStore, Kind, Origin};
pub(crate) use crate::frame::Outcome;
use crate::frame::{Frame, Habits, Stopped, server_command};
use crate::machine::tool_version;
use crate::report::{Bench, DataNote, Report, SeriesInfo, StoredRow, TargetNote};

/// One whole measurement.
pub(crate) struct Lab<'o> {
    pub(crate) options: &'o DavOptions,
    pub(crate) store: DataStore,
    pub(crate) bays: Vec<Bay>,
    frame: Frame,
    pub(crate) baselines: Vec<BaselineRow>,
    pub(crate) stored: Vec<StoredRow>,
    data: Vec<DataNote>,
}

impl<'o> Lab<'o> {
    pub(crate) fn new(options: &'o DavOptions, stop: Arc<AtomicBool>) -> anyhow::Result<Self> {
        // From the system's randomness, not the seed: two runs at once must not meet in one folder.
        let name = format!("bench-{:08x}", rand::random::<u32>());
        let bays = options.targets.iter().map(|spec| {
            Bay::new(spec, options, &name, Arc::clone(&stop)).with_context(|| format!("target {}", spec.label))
        });
        let bays = bays.collect::<anyhow::Result<Vec<Bay>>>()?;
        let sources =
            if options.text_sources.is_empty() { data::default_sources() } else { options.text_sources.clone() };
        std::fs::create_dir_all(&options.data_dir)
            .with_context(|| format!("cannot make the data folder {}", options.data_dir.display()))?;
        let habits = Habits {
            runs: options.runs,
            seed: options.seed,
            settle: options.settle,
            warm: options.warm,
            progress: options.progress,
            command: options.command.clone(),
            notes: options.notes.clone(),
        };
        let targets = options.targets.iter().map(|target| (target.label.clone(), target.pids.clone())).collect();
        Ok(Self {
            options,
            store: DataStore { folder: options.data_dir.clone(), seed: options.seed, sources },
            bays,
            frame: Frame::new(habits, targets, stop),
            baselines: Vec::new(),
            stored: Vec::new(),
            data: Vec::new(),
        })
    }

    /// Makes the bench folder of every target; one that refuses is left out, and the report says why.
    pub(crate) fn set_up(&mut self) {
        for index in 0..self.bays.len() {
            if let Err(failure) = self.bays[index].set_up() {
                self.frame.leave_out(index);
                self.fail("set up", index, &failure);
            }
        }
    }

    pub(crate) fn clean_up(&mut self) {
        for index in 0..self.bays.len() {
            if let Err(failure) = self.bays[index].clean_up() {
                self.fail("clean up (the bench folder may be left behind)", index, &failure);
            }
        }
    }

    pub(crate) fn order(&self, run: u32) -> Vec<usize> {
        self.frame.order(run)
    }

    pub(crate) fn interrupted(&self) -> bool {
        self.frame.interrupted()
    }

    pub(crate) fn stop_flag(&self) -> &AtomicBool {
        self.frame.stop_flag()
    }

    pub(crate) fn say(&self, what: &str) {
        self.frame.say(what);
    }

    pub(crate) fn warn(&mut self, text: String) {
        self.frame.warn(text);
    }

    pub(crate) fn prepare(&self, bytes: u64) {
        self.frame.prepare(bytes);
    }

    pub(crate) fn fail(&mut self, step: &str, target: usize, failure: &Failure) {
        if !failure.is_interrupt() {
            self.frame.fail(step, target, failure);
        }
    }

    /// Does an untimed step and records its failure; tells whether it went well.
    pub(crate) fn untimed(
        &mut self,
        step: &str,
        target: usize,
        work: impl FnOnce(&Bay) -> Result<(), Failure>,
    ) -> bool {
        if self.interrupted() {
            return false;
        }
        let result = work(&self.bays[target]);
        result.map_err(|failure| self.fail(step, target, &failure)).is_ok()
    }

    /// Times one run of `work` on one target. Tells whether it gave a figure.
    pub(crate) fn measure(
        &mut self,
        info: &SeriesInfo,
        target: usize,
        bytes: u64,
        work: impl FnOnce(&Bay) -> Result<Outcome, Failure>,
    ) -> bool {
        let bay = &self.bays[target];
        self.frame.measure(info, target, bytes, || {
            work(bay).map_err(|failure| {
                if failure.is_interrupt() { Stopped::Interrupted } else { Stopped::Failed(failure.to_string()) }
            })
        })
    }

    /// Notes where a file's content came from, once.
    pub(crate) fn note_data(&mut self, kind: Kind, bytes: u64, origin: &Origin) {
        let note = DataNote { kind, bytes, origin: origin.clone() };
        if !self.data.contains(&note) {
            self.data.push(note);
        }
    }

    /// Sums everything up.
    pub(crate) fn into_report(self) -> Report {
        let targets = self.bays.iter().map(|bay| TargetNote {
            label: bay.spec.label.clone(),
            url: bay.spec.url.to_string(),
            server: bay.server.clone(),
            command: server_command(
                &bay.spec.pids,
                bay.spec.credentials.as_ref().map(|(_, password)| password.as_str()),
            ),
        });
        let mut report = self.frame.into_report(Bench::Dav, &self.options.data_dir);
        report.targets = targets.collect();
        for (program, argument) in
            [("cp", "--version"), ("gzip", "--version"), ("zstd", "--version"), ("openssl", "version")]
        {
            report
                .versions
                .push(tool_version(program, argument).unwrap_or_else(|| format!("{program}: not installed")));
        }
        report.seed000 = crate::report::seed000::rows(&report.series, &self.baselines);
        Report { data: self.data, baselines: self.baselines, stored: self.stored, ..report }
    }
}
