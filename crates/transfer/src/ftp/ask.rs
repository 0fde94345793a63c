//! What one asks of a server: what is there, and changes that take one command each.

use super::list::{self, Entry, What};
use super::reply::Reply;
use super::session::{Features, Session, command};
use crate::signs;
use holdfast_base::limits::FILE_BYTES_MAX;
use holdfast_base::{Error, ErrorKind, Result};
use std::sync::atomic::Ordering;
use std::time::Duration;
use tokio::time::timeout;

/// Questions that are asked in one go, where each has a short answer.
const PIPELINED: usize = 16;
/// After this, a server that answers nothing is asked on another connection, and one by one from then on.
const PIPELINE_TIME: Duration = Duration::from_secs(15);

impl Session {
    /// What is at a path; none if nothing is. Without MLST links are followed: there is no other way to ask.
    pub(super) async fn look(&mut self, path: &str) -> Result<Option<Entry>> {
        let doing = "looking at it";
        let at = self.at(path);
        if self.features.mlst {
            let told = self.ask(&format!("MLST {at}")).await?;
            if !told.is_done() {
                return absent(&told, doing);
            }
            let line = told.lines.iter().skip(1).find(|line| line.contains(';'));
            let line = line.map_or("", |line| line.trim_start());
            return list::facts(line.as_bytes()).map_err(|(_, error)| error);
        }
        let told = self.ask(&format!("SIZE {at}")).await?;
        let name = holdfast_base::NodeName::new(path.rsplit('/').next().unwrap_or(path))?;
        let mut entry = Entry { name, what: What::File, size: 0, modified: None, unique: None, mode: None };
        if told.is_done() {
            let size = told.text().trim().parse().ok().filter(|size| *size <= FILE_BYTES_MAX);
            entry.size = size.ok_or_else(|| Error::new(ErrorKind::Unsupported, "the server's sizes are no numbers"))?;
            entry.modified = self.moments(&[path.to_owned()]).await?.into_iter().next().flatten();
            return Ok(Some(entry));
        }
        if told.code != 550 {
            return absent(&told, doing);
        }
        let told = self.ask(&format!("CWD {at}")).await?;
        if told.is_done() {
            return Ok(Some(Entry { what: What::Folder, ..entry }));
        }
        absent(&told, doing)
    }

    /// When some files changed, as the server writes it; none where it does not say.
    pub(super) async fn moments(&mut self, paths: &[String]) -> Result<Vec<Option<String>>> {
        if !self.features.mdtm {
            return Ok(vec![None; paths.len()]);
        }
        let mut moments = Vec::with_capacity(paths.len());
        let at_once = if self.pipelined.load(Ordering::Relaxed) { PIPELINED } else { 1 };
        for some in paths.chunks(at_once) {
            let mut commands = String::new();
            for path in some {
                commands.push_str(&command(&format!("MDTM {}", self.at(path)))?);
            }
            self.send(&commands, some.len()).await?;
            for _ in some {
                let Ok(told) = timeout(PIPELINE_TIME, self.reply()).await else {
                    self.pipelined.store(false, Ordering::Relaxed);
                    return Err(Error::new(ErrorKind::Timeout, "the server did not say when files changed"));
                };
                let told = told?;
                let text = told.text().trim();
                moments.push((told.code == 213 && list::moment(text).is_some()).then(|| text.to_owned()));
            }
            signs::current().alive();
        }
        Ok(moments)
    }

    /// What a folder has, in the server's order: each line is given to `take`.
    pub(super) async fn list(&mut self, path: &str, mut take: impl FnMut(list::Line) -> Result<()>) -> Result<()> {
        let doing = "listing it";
        // No name of a folder can be taken for an option or a pattern this way.
        self.ask(&format!("CWD {}", self.at(path))).await?.done(doing, ErrorKind::NotFound)?;
        if self.features.mlst {
            return self.lines("MLSD", doing, list::facts, &mut take).await.map(drop);
        }
        // Some list names that begin with a dot only if they are told to, and some take the option for a name, of which there is nothing.
        match self.lines("LIST -a", doing, list::listed, &mut take).await {
            Ok(0) => {}
            Err(error)
                if matches!(error.kind(), ErrorKind::NotFound | ErrorKind::InvalidInput | ErrorKind::Unsupported) => {}
            done => return done.map(drop),
        }
        self.lines("LIST", doing, list::listed, &mut take).await.map(drop)
    }

    async fn lines(
        &mut self,
        command: &str,
        doing: &str,
        parse: fn(&[u8]) -> list::Line,
        take: &mut impl FnMut(list::Line) -> Result<()>,
    ) -> Result<usize> {
        let (mut data, signs, mut count) = (self.start(command, 0, doing).await?, signs::current(), 0);
        while let Some(line) = data.line().await? {
            signs.alive();
            count += 1;
            take(parse(&line))?;
        }
        drop(data);
        self.reply().await?.done(doing, ErrorKind::NotFound)?;
        Ok(count)
    }

    /// Sets the time of a file, as far as the server can: MFMT, or MDTM with a time before the name, as many did before there was that.
    pub(super) async fn set_time(&mut self, path: &str, modified_ns: i64) -> Result<()> {
        let Some(moment) = list::moment_text(modified_ns) else { return Ok(()) };
        let word = match self.features {
            Features { mfmt: true, .. } => "MFMT",
            Features { mdtm: true, .. } => "MDTM",
            _ => return Ok(()),
        };
        let told = self.ask(&format!("{word} {moment} {}", self.at(path))).await?;
        if !told.is_done() {
            tracing::debug!(code = told.code, said = told.text(), "the server did not set a file's time");
        }
        Ok(())
    }

    /// Gives a file another name, in one step where the server can.
    pub(super) async fn rename(&mut self, from: &str, to: &str, replace: bool) -> Result<()> {
        let doing = "giving the file its name";
        let told = self.rename_once(from, to).await?;
        if told.is_done() || !replace || !(500..600).contains(&told.code) {
            return told.done(doing, ErrorKind::Forbidden).map(drop);
        }
        // Some servers only rename to what is not there.
        self.delete(to).await?;
        self.rename_once(from, to).await?.done(doing, ErrorKind::Forbidden).map(drop)
    }

    async fn rename_once(&mut self, from: &str, to: &str) -> Result<Reply> {
        let told = self.ask(&format!("RNFR {}", self.at(from))).await?;
        if told.code != 350 {
            return Ok(told);
        }
        self.ask(&format!("RNTO {}", self.at(to))).await
    }

    /// Removes a file.
    pub(super) async fn delete(&mut self, path: &str) -> Result<()> {
        self.ask(&format!("DELE {}", self.at(path))).await?.done("removing it", ErrorKind::Forbidden).map(drop)
    }
}

/// Nothing, if that is what a refusal to look means.
fn absent(told: &Reply, doing: &str) -> Result<Option<Entry>> {
    let error = told.refused(doing, ErrorKind::NotFound);
    if error.kind() == ErrorKind::NotFound { Ok(None) } else { Err(error) }
}
