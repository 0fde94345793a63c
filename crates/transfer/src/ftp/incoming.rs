//! Taking a file in.
//!
//! Content goes to a part file beside the target ([`crate::part`]), which gets the target's time and then its name when the server says that it
//! has all of it. What stands of an earlier try is what the server says of the part's size, less a block and what is more than whole blocks: a
//! server that was killed has kept what it had written, in order. Its power cuts are another matter: FTP can neither sync a file nor, on most servers,
//! sum one up.

use super::data::Data;
use super::pool::Lease;
use super::session::Session;
use super::{Inner, check, path_of_text};
use crate::part::PartName;
use crate::site::{Incoming, Item, Kind, Wanted};
use async_trait::async_trait;
use bytes::Bytes;
use holdfast_base::limits::BLOCK_BYTES;
use holdfast_base::{DrivePath, Error, ErrorKind, NodeName, Result};
use std::sync::Arc;
use std::time::Duration;

const GRAIN: u64 = BLOCK_BYTES as u64;
/// How long a server may take to say why it does not take any more.
const REASON_TIME: Duration = Duration::from_secs(5);

/// A file that is coming in.
pub(super) struct FtpIncoming {
    inner: Arc<Inner>,
    wanted: Wanted,
    folder: DrivePath,
    name: NodeName,
    part: String,
    /// Content of a file of one block.
    small: Bytes,
    /// A larger one on its way.
    upload: Option<(Lease, Data)>,
    stands: u64,
    arrived: u64,
}

impl FtpIncoming {
    /// Begins, or goes on with what is there.
    pub(super) async fn begin(inner: Arc<Inner>, wanted: &Wanted) -> Result<Self> {
        let (Some(folder), Some(name)) = (wanted.path.parent(), wanted.path.name().cloned()) else {
            return Err(Error::new(ErrorKind::WrongKind, "a file cannot become the destination itself"));
        };
        let part = PartName::new(&name, &wanted.key);
        let path = path_of_text(&folder, &part.part());
        let wanted = wanted.clone();
        let (small, upload) = (Bytes::new(), None);
        let mut this = Self { inner, wanted, folder, name, part: path, small, upload, stands: 0, arrived: 0 };
        if this.is_large() {
            let mut lease = this.inner.pool.lease_long().await?;
            match this.start(lease.session(), &part).await {
                Ok(data) => this.upload = Some((lease, data)),
                Err(error) => {
                    lease.done();
                    return Err(error);
                }
            }
        }
        Ok(this)
    }

    fn is_large(&self) -> bool {
        self.wanted.size > GRAIN
    }

    /// Finds out what stands, and begins to send the rest.
    async fn start(&mut self, session: &mut Session, name: &PartName) -> Result<Data> {
        check(session, &self.wanted.path, self.wanted.replaces.as_ref()).await?;
        self.inner.clear(session, &self.folder, name).await;
        let there = session.look(&self.part).await?.map(|entry| entry.size);
        let stands = there.filter(|there| session.features.rest && *there <= self.wanted.size).unwrap_or(0);
        let stands = (stands / GRAIN).saturating_sub(1) * GRAIN;
        if stands > 0 {
            match self.store(session, stands).await {
                Ok(data) => {
                    (self.stands, self.arrived) = (stands, stands);
                    return Ok(data);
                }
                Err(error) if error.is_temporary() => return Err(error),
                Err(error) => tracing::debug!(%error, "the server does not go on with a file"),
            }
        }
        if there.is_some() {
            // Whoever still writes to it writes to what is gone.
            session.delete(&self.part).await?;
        }
        self.store(session, 0).await
    }

    async fn store(&self, session: &mut Session, from: u64) -> Result<Data> {
        let command = format!("STOR {}", session.at(&self.part));
        let started = session.start(&command, from, "writing it").await;
        // Nothing can be missing but the folder, or the right to write there.
        started.map_err(|error| match error.kind() {
            ErrorKind::NotFound => Error::new(ErrorKind::Forbidden, error.message()),
            _ => error,
        })
    }

    /// Sends a file of one block.
    async fn send_small(&self, session: &mut Session) -> Result<()> {
        let name = PartName::new(&self.name, &self.wanted.key);
        self.inner.clear(session, &self.folder, &name).await;
        let mut data = match self.store(session, 0).await {
            // Some do not write over what an earlier try left.
            Err(error) if error.kind() == ErrorKind::Forbidden && session.look(&self.part).await?.is_some() => {
                session.delete(&self.part).await?;
                self.store(session, 0).await?
            }
            started => started?,
        };
        match data.write(&self.small).await {
            Ok(()) => received(session, data).await,
            Err(error) => Err(reason(session, data, error).await),
        }
    }

    /// Makes the part the file.
    async fn publish(&self, session: &mut Session) -> Result<Item> {
        if let Some(modified_ns) = self.wanted.modified_ns {
            session.set_time(&self.part, modified_ns).await?;
        }
        let missing = || Error::unavailable("the server has not got what it took");
        let there = session.look(&self.part).await?.ok_or_else(missing)?;
        if there.size != self.wanted.size {
            let what = format!("the server has {} of {} bytes that it took", there.size, self.wanted.size);
            return Err(Error::unavailable(what));
        }
        check(session, &self.wanted.path, self.wanted.replaces.as_ref()).await?;
        let target = self.wanted.path.to_string();
        session.rename(&self.part, &target, self.wanted.replaces.is_some()).await?;
        let (version, modified_ns) = (
            super::version(there.size, there.modified.as_deref(), there.unique.as_deref()),
            there.modified.as_deref().and_then(super::list::moment),
        );
        let (name, size) = (self.name.clone(), there.size);
        Ok(Item { name, kind: Kind::File, size, modified_ns, mode: there.mode, version })
    }
}

/// Says that all was sent, and hears that it arrived.
async fn received(session: &mut Session, data: Data) -> Result<()> {
    match data.close().await {
        Ok(()) => session.reply().await?.done("writing it", ErrorKind::Forbidden).map(drop),
        Err(error) => Err(said(session, error).await),
    }
}

/// Why a server takes no more.
async fn reason(session: &mut Session, data: Data, error: Error) -> Error {
    drop(data);
    said(session, error).await
}

async fn said(session: &mut Session, error: Error) -> Error {
    match tokio::time::timeout(REASON_TIME, session.reply()).await {
        Ok(Ok(told)) if !told.is_done() => told.refused("writing it", ErrorKind::Forbidden),
        _ => error,
    }
}

#[async_trait]
impl Incoming for FtpIncoming {
    fn stands_at(&self) -> u64 {
        self.stands
    }

    fn grain(&self) -> u64 {
        GRAIN
    }

    async fn write(&mut self, bytes: Bytes) -> Result<()> {
        let length = bytes.len() as u64;
        if self.is_large() {
            let (mut lease, mut data) = self.upload.take().ok_or_else(|| Error::unavailable("the connection broke"))?;
            if let Err(error) = data.write(&bytes).await {
                let error = reason(lease.session(), data, error).await;
                lease.done();
                return Err(error);
            }
            self.upload = Some((lease, data));
        } else {
            self.small = bytes;
        }
        self.arrived += length;
        Ok(())
    }

    fn arrived(&self) -> u64 {
        self.arrived
    }

    async fn finish(mut self: Box<Self>) -> Result<Item> {
        if self.arrived != self.wanted.size {
            let (arrived, size) = (self.arrived, self.wanted.size);
            return Err(Error::internal(format!("{arrived} of {size} bytes were written when it was to be finished")));
        }
        let (mut lease, sent) = match self.upload.take() {
            Some((mut lease, data)) => {
                let sent = received(lease.session(), data).await;
                (lease, sent)
            }
            None if self.is_large() => return Err(Error::unavailable("the connection broke")),
            None => {
                let mut lease = self.inner.pool.lease().await?;
                let sent = self.send_small(lease.session()).await;
                (lease, sent)
            }
        };
        let done = match sent {
            Ok(()) => self.publish(lease.session()).await,
            Err(error) => Err(error),
        };
        lease.done();
        done
    }

    async fn pause(mut self: Box<Self>) {
        let Some((mut lease, data)) = self.upload.take() else { return };
        // What is on its way is to be in the part.
        if let Err(error) = received(lease.session(), data).await {
            tracing::debug!(%error, path = %self.wanted.path, "the last of it before a pause may not have arrived");
        }
        lease.done();
    }
}
