//! What lies on the disks of drive, database and store, and what is logged, says nothing of content, passwords and keys; and whoever takes
//! both catalogue and store opens nothing with the program's own code.

use std::sync::Arc;

use holdfast_auth::{AuthOptions, Authenticator, Credential, Secret, Session};
use holdfast_base::SystemClock;
use holdfast_e2e::Outcome;
use holdfast_e2e::corpus::{CorpusFile, store};
use holdfast_e2e::objects::Objects;
use holdfast_e2e::rig::{HOME, NAME, PASSWORD, Rig, make_token};
use holdfast_meta::Catalogue;
use holdfast_meta::postgres::{self, PostgresCatalogue};
use holdfast_meta::sqlite::{self, SqliteCatalogue};
use holdfast_seal::block::{BlockKeys, Opener, RECORD_PREFIX_BYTES};
use holdfast_seal::pack::{PackEntry, Scan};
use holdfast_seal::{AccountKey, SpaceKey};
use holdfast_testkit::postgres::PostgresServer;
use holdfast_testkit::scan::{Finding, Needles};

/// Pieces of each file that are looked for.
const SAMPLES: usize = 40;

/// A second account, made to see its recovery code.
const OTHER: &str = "ben";
/// Its password.
const OTHER_PASSWORD: &str = "copper-lantern-drifts-nine";

/// A drive's catalogue, opened with the program's own code.
enum Opened {
    Sqlite(Arc<SqliteCatalogue>),
    Postgres(Arc<PostgresCatalogue>),
}

impl Opened {
    async fn open(rig: &Rig) -> Outcome<Self> {
        if let Some(url) = &rig.place.database {
            return Ok(Self::Postgres(Arc::new(PostgresCatalogue::connect(url, &postgres::Options::default()).await?)));
        }
        let path = rig.data().join("catalogue.db");
        Ok(Self::Sqlite(Arc::new(SqliteCatalogue::open(&path, &sqlite::Options::default())?)))
    }

    fn shared(&self) -> Arc<dyn Catalogue> {
        match self {
            Self::Sqlite(catalogue) => catalogue.clone(),
            Self::Postgres(catalogue) => catalogue.clone(),
        }
    }

    async fn close(self) -> Outcome {
        match self {
            Self::Sqlite(catalogue) => catalogue.close().await?,
            Self::Postgres(catalogue) => catalogue.close().await?,
        }
        Ok(())
    }
}

/// Signs in as the program does.
async fn sign_in(catalogue: Arc<dyn Catalogue>, password: &str) -> Outcome<Arc<Session>> {
    let authenticator = Authenticator::new(catalogue, Arc::new(SystemClock), AuthOptions::default())?;
    let credential = Credential::Basic { name: NAME.to_owned(), secret: Secret::new(password) };
    Ok(authenticator.sign_in(&credential, None).await?)
}

/// The keys that the server has in memory while the account is signed in.
async fn unlocked_keys(rig: &Rig) -> Outcome<Vec<Vec<u8>>> {
    let opened = Opened::open(rig).await?;
    let catalogue = opened.shared();
    let session = sign_in(catalogue.clone(), PASSWORD).await?;
    let mut keys = vec![session.key().expose().to_vec()];
    for (space, membership) in catalogue.spaces_of(session.account).await? {
        keys.push(session.space_key(space.uid, &membership)?.expose().to_vec());
    }
    opened.close().await?;
    Ok(keys)
}

/// Looks everywhere: in the data directory, in what database and store have on their disks, and in what they answer, since what they
/// compress on their disks is not found there.
fn look_everywhere(rig: &Rig, needles: &Needles) -> Outcome<Vec<Finding>> {
    let answered = tempfile::tempdir()?;
    let objects = rig.objects()?;
    for name in objects.names()? {
        std::fs::write(answered.path().join(name.replace('/', "-")), objects.read(&name)?)?;
    }
    if let Some(url) = &rig.place.database {
        PostgresServer::shared()?.copy_out(url)?;
    }
    let mut folders = rig.place.folders()?;
    folders.extend([rig.data(), answered.path().to_owned()]);
    let mut findings = Vec::new();
    for folder in &folders {
        findings.extend(needles.scan(folder)?);
    }
    Ok(findings)
}

#[tokio::test]
async fn no_content_password_or_key_is_anywhere_on_the_disks_or_in_the_log() -> Outcome {
    let mut rig = Rig::with(|options| options.argument("--log-level").argument("debug"))?;
    let mut needles = Needles::new();
    for file in store(&mut rig.client(), &format!("{HOME}/corpus"))? {
        needles.add_samples(&file.path, &file.content, SAMPLES);
    }
    needles.add_encoded("password", PASSWORD.as_bytes());
    let token = make_token(rig.server.options())?;
    needles.add_encoded("token", token.as_bytes());
    let (_, secret) = token.rsplit_once('_').ok_or("a token without a secret")?;
    needles.add_encoded("secret of a token", secret.as_bytes());
    let made = rig.run(&["account", "add", OTHER, "--password-file", "-", "--json"], OTHER_PASSWORD.as_bytes())?;
    let made: serde_json::Value = serde_json::from_slice(&made.stdout)?;
    let code = made["recovery_code"].as_str().ok_or("no recovery code was shown")?;
    needles.add_encoded("recovery code", code.as_bytes());
    needles.add_encoded("recovery code without dashes", code.replace('-', "").as_bytes());
    needles.add_encoded("other password", OTHER_PASSWORD.as_bytes());
    // Used, so that whatever using them leaves is there too; wrong ones are somebody's right ones elsewhere.
    rig.server.client_of(NAME, &token).get(&format!("{HOME}/corpus/blocks-text"))?.expect_status(200)?;
    rig.server.client_of(OTHER, OTHER_PASSWORD).get("/dav/ben/")?.expect_status(200)?;
    needles.add_encoded("wrong password", b"hunter2-hunter2-hunter2");
    rig.server.client_of(NAME, "hunter2-hunter2-hunter2").get(HOME)?.expect_status(401)?;

    for key in unlocked_keys(&rig).await? {
        needles.add_encoded("a key", &key);
    }
    assert_eq!(look_everywhere(&rig, &needles)?, [], "while the server runs");
    rig.stop()?;
    assert_eq!(look_everywhere(&rig, &needles)?, [], "after it stopped");
    std::fs::write(rig.scratch().join("log"), rig.server.log())?;
    let log_folder = tempfile::tempdir()?;
    std::fs::copy(rig.scratch().join("log"), log_folder.path().join("log"))?;
    assert_eq!(needles.scan(log_folder.path())?, [], "in the log");
    Ok(())
}

/// The records of all packs of a drive, found without a key.
fn records(objects: &Objects) -> Outcome<Vec<(PackEntry, Vec<u8>)>> {
    let mut found = Vec::new();
    for name in objects.names()? {
        let bytes = objects.read(&name)?;
        let mut scan = Scan::new(bytes.len() as u64);
        while let Some(at) = scan.wants() {
            let at = usize::try_from(at)?;
            let Some(entry) = scan.next(&bytes[at..at + RECORD_PREFIX_BYTES]) else { break };
            found.push((entry, bytes[at..at + entry.record_bytes as usize].to_vec()));
        }
    }
    Ok(found)
}

/// How many of the records a key opens to bytes of the corpus.
fn opens(records: &[(PackEntry, Vec<u8>)], key: &SpaceKey, corpus: &[CorpusFile]) -> usize {
    let mut opener = Opener::default();
    let does = |(entry, record): &&(PackEntry, Vec<u8>)| {
        let keys = BlockKeys::derive(entry.space, key);
        opener.open(&keys, entry.id, record.clone(), Vec::new()).is_ok_and(|(buffer, start, _)| {
            let plain = &buffer[start..(start + entry.raw_bytes as usize).min(buffer.len())];
            assert!(corpus.iter().any(|file| file.content.windows(plain.len()).any(|piece| piece == plain)));
            true
        })
    };
    records.iter().filter(does).count()
}

#[tokio::test]
async fn catalogue_and_store_without_a_credential_open_nothing() -> Outcome {
    let mut rig = Rig::new()?;
    let corpus = store(&mut rig.client(), &format!("{HOME}/corpus"))?;
    rig.stop()?;
    let records = records(&rig.objects()?)?;
    assert!(records.len() >= 6, "only {} records", records.len());

    let opened = Opened::open(&rig).await?;
    let catalogue = opened.shared();
    // Few, and from elsewhere: the limit on trying must not be what refuses them.
    for guess in ["password", &PASSWORD[1..], &PASSWORD.to_uppercase()] {
        let refused = sign_in(catalogue.clone(), guess).await.err().map(|error| error.to_string());
        println!("{guess:?}: {refused:?}");
        assert!(refused.is_some(), "{guess:?} signs in");
    }
    // Everything that lies there in clear and has the length of a key, and keys of the thief's own.
    let mut guesses = vec![SpaceKey::generate()?, SpaceKey::from_bytes([0; 32])];
    let account = catalogue.accounts().await?.into_iter().next().ok_or("no account")?;
    guesses.push(SpaceKey::from_bytes(account.public_key));
    let (thief, _) = AccountKey::generate()?;
    let known = AccountKey::from_private(&account.public_key)?;
    for (space, membership) in catalogue.spaces_of(account.id).await? {
        for key in [&thief, &known] {
            assert!(key.unwrap_space_key(space.uid, &membership.wrapped_key).is_err());
        }
        guesses.extend(
            membership.wrapped_key.windows(32).map(|bytes| SpaceKey::from_bytes(bytes.try_into().expect("32"))),
        );
    }
    for guess in &guesses {
        assert_eq!(opens(&records, guess, &corpus), 0);
    }

    // The same code opens all of it with the credential: the attempts above failed for want of nothing else.
    let session = sign_in(catalogue.clone(), PASSWORD).await?;
    let (space, membership) = catalogue.spaces_of(account.id).await?.into_iter().next().ok_or("no space")?;
    let key = session.space_key(space.uid, &membership)?;
    assert_eq!(opens(&records, &key, &corpus), records.len());
    opened.close().await?;
    Ok(())
}
