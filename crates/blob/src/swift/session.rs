//! The session in use: begun by the first call, renewed before it ends and when it is refused.
//!
//! One call signs in at a time and the others wait for it, so that a token that ends under many calls costs one sign-in.

use super::auth::{Auth, Choice, Session};
use crate::http::{Client, check_scheme};
use holdfast_base::{Error, Result};
use http::Uri;
use std::sync::Arc;
use std::time::{Duration, Instant};
use tokio::sync::Mutex;

/// Tokens are renewed this long before they end: longer than the longest request takes, so that none ends under way.
const RENEW_BEFORE: Duration = Duration::from_mins(2);

/// A session and those that follow it.
pub(super) struct Sessions {
    auth: Auth,
    choice: Choice,
    plain_http: bool,
    current: Mutex<Option<Arc<Session>>>,
}

impl Sessions {
    pub(super) fn new(auth: Auth, choice: Choice, plain_http: bool) -> Self {
        Self { auth, choice, plain_http, current: Mutex::new(None) }
    }

    /// A session that lasts for a while.
    pub(super) async fn current(&self, client: &Client) -> Result<Arc<Session>> {
        let mut current = self.current.lock().await;
        match &*current {
            Some(session) if lasts(session) => Ok(Arc::clone(session)),
            _ => self.begin(client, &mut current).await,
        }
    }

    /// A session other than `refused`.
    pub(super) async fn after(&self, client: &Client, refused: &Arc<Session>) -> Result<Arc<Session>> {
        let mut current = self.current.lock().await;
        match &*current {
            Some(session) if !Arc::ptr_eq(session, refused) && lasts(session) => Ok(Arc::clone(session)),
            _ => self.begin(client, &mut current).await,
        }
    }

    async fn begin(&self, client: &Client, current: &mut Option<Arc<Session>>) -> Result<Arc<Session>> {
        let session = Arc::new(self.auth.sign_in(client, &self.choice).await?);
        let address: Uri = session.storage_url.parse().map_err(|error| {
            Error::damaged("the address of the account, as told by signing in, is none").with_source(error)
        })?;
        check_scheme(&address, self.plain_http)?;
        *current = Some(Arc::clone(&session));
        Ok(session)
    }
}

fn lasts(session: &Session) -> bool {
    // A token that lives shorter than the margin is used to its end.
    session.expires.is_none_or(|end| end > Instant::now() + RENEW_BEFORE)
}
