//! A cluster's objects in a directory, in one file of redb: its commits are whole or absent, whenever the process dies.

use std::{
    future::Future,
    path::{Path, PathBuf},
    pin::Pin,
    sync::{Arc, mpsc},
    thread::JoinHandle,
    time::Duration,
};

use redb::{Database, DatabaseError, ReadableDatabase as _, ReadableTable as _, TableDefinition, TableError};
use steersman_apiserver::{Journal, JournalError, Record};
use tokio::sync::watch;

use crate::error::Error;

/// `resource`, a zero byte and `key`, to the revisions of the last write and of the creation, and the object.
const OBJECTS: TableDefinition<'_, &str, (u64, u64, &[u8])> = TableDefinition::new("objects");
/// The last revision, which a deletion may have taken.
const COUNTERS: TableDefinition<'_, &str, u64> = TableDefinition::new("counters");
/// What makes the cluster the same one after a restart, in texts.
const IDENTITY: TableDefinition<'_, &str, &str> = TableDefinition::new("identity");

const FILE: &str = "cluster.redb";
const REVISION: &str = "revision";
/// Everything is in memory anyway, so the file's pages need not be.
const PAGE_CACHE: usize = 8 << 20;
/// A cluster that was dropped a moment ago may still hold the file.
const PATIENCE: Duration = Duration::from_secs(2);

/// What lasts beside the objects.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Identity {
    /// The authority's certificate in PEM.
    pub(crate) certificate: String,
    /// The authority's key in PEM.
    pub(crate) key: String,
    /// The administrator's token.
    pub(crate) token: String,
}

/// A directory that this cluster holds.
#[derive(Debug)]
pub(crate) struct Disk {
    database: Database,
    path: PathBuf,
}

impl Disk {
    /// Opens a directory, and makes it if it is not there.
    pub(crate) async fn open(directory: &Path) -> Result<Self, Error> {
        let path = directory.join(FILE);
        let failed = |error: redb::Error| Error::DataDirectory(path.clone(), Box::new(error));
        std::fs::create_dir_all(directory).map_err(|e| failed(e.into()))?;
        if !path.exists() {
            begin(&path).map_err(|e| failed(e.into()))?;
        }
        let begun = std::time::Instant::now();
        let database = loop {
            match create(&path) {
                Err(DatabaseError::DatabaseAlreadyOpen) if begun.elapsed() < PATIENCE => {
                    tokio::time::sleep(Duration::from_millis(10)).await;
                }
                other => break other.map_err(|e| failed(e.into()))?,
            }
        };
        Ok(Self { database, path })
    }

    /// The objects as they were written last, and the identity if there is one yet.
    pub(crate) fn load(&self) -> Result<(Vec<Record>, Option<Identity>), Error> {
        self.read().map_err(|error| Error::DataDirectory(self.path.clone(), Box::new(error)))
    }

    fn read(&self) -> Result<(Vec<Record>, Option<Identity>), redb::Error> {
        let transaction = self.database.begin_read()?;
        let mut records = Vec::new();
        if let Some(objects) = present(transaction.open_table(OBJECTS))? {
            for item in objects.iter()? {
                let (name, value) = item?;
                let (revision, created, object) = value.value();
                let Some((resource, key)) = name.value().split_once('\0') else { continue };
                let (resource, key) = (resource.to_owned(), key.to_owned());
                records.push(Record { resource, key, revision, created, object: Some(object.into()) });
            }
        }
        if let Some(counters) = present(transaction.open_table(COUNTERS))?
            && let Some(revision) = counters.get(REVISION)?
        {
            // A deletion that nobody needs to hear of, except for its number.
            let revision = revision.value();
            let (resource, key) = (String::new(), String::new());
            records.push(Record { resource, key, revision, created: revision, object: None });
        }
        let mut identity = None;
        if let Some(texts) = present(transaction.open_table(IDENTITY))? {
            let text = |name: &str| texts.get(name).map(|found| found.map(|text| text.value().to_owned()));
            if let (Some(certificate), Some(key), Some(token)) =
                (text("certificate")?, text("key")?, text("token")?)
            {
                identity = Some(Identity { certificate, key, token });
            }
        }
        Ok((records, identity))
    }

    /// Keeps an identity.
    pub(crate) fn keep(&self, identity: &Identity) -> Result<(), Error> {
        let write = || -> Result<(), redb::Error> {
            let transaction = self.database.begin_write()?;
            {
                let mut texts = transaction.open_table(IDENTITY)?;
                texts.insert("certificate", identity.certificate.as_str())?;
                texts.insert("key", identity.key.as_str())?;
                texts.insert("token", identity.token.as_str())?;
            }
            Ok(transaction.commit()?)
        };
        write().map_err(|error| Error::DataDirectory(self.path.clone(), Box::new(error)))
    }

    /// Writes from now on what the server tells it, up to `revision` known already.
    pub(crate) fn journal(self, revision: u64) -> Result<DiskJournal, Error> {
        let (records, inbox) = mpsc::channel();
        let (reached, progress) = watch::channel(Progress { revision, failure: None });
        let path = self.path.clone();
        let writer = std::thread::Builder::new()
            .name("steersman-disk".to_owned())
            .spawn(move || write_all(&self.database, &inbox, &reached))
            .map_err(|error| Error::DataDirectory(path, Box::new(error)))?;
        Ok(DiskJournal { records: Some(records), progress, writer: Some(writer) })
    }
}

/// Makes an empty file under another name, and gives it its own when it is whole: a process that is killed meanwhile
/// leaves nothing that can't be opened.
fn begin(path: &Path) -> Result<(), DatabaseError> {
    let fresh = path.with_extension(format!("{}.new", std::process::id()));
    let _ = std::fs::remove_file(&fresh);
    drop(create(&fresh)?);
    // Unlike a rename, this leaves alone what somebody else has put there in the meantime.
    let linked = std::fs::hard_link(&fresh, path);
    std::fs::remove_file(&fresh)?;
    match linked {
        Err(error) if error.kind() != std::io::ErrorKind::AlreadyExists => Err(error.into()),
        _ => Ok(()),
    }
}

/// Opens the file, readable by its owner alone: it holds secrets.
fn create(path: &Path) -> Result<Database, DatabaseError> {
    #[cfg(unix)]
    {
        use std::os::unix::fs::OpenOptionsExt as _;
        let mut options = std::fs::OpenOptions::new();
        options.read(true).write(true).create(true).truncate(false).mode(0o600).open(path)?;
    }
    redb::Builder::new().set_cache_size(PAGE_CACHE).create(path)
}

/// A table that nobody wrote to yet is an empty one.
fn present<T>(opened: Result<T, TableError>) -> Result<Option<T>, redb::Error> {
    match opened {
        Ok(table) => Ok(Some(table)),
        Err(TableError::TableDoesNotExist(_)) => Ok(None),
        Err(error) => Err(error.into()),
    }
}

#[derive(Debug, Clone)]
struct Progress {
    /// Everything up to here is on disk.
    revision: u64,
    /// Why nothing more will be.
    failure: Option<Arc<str>>,
}

/// The thread that writes, seen from the server. Whatever gathers while one commit reaches the disk makes up the next
/// one, so many writers wait for few of them.
#[derive(Debug)]
pub(crate) struct DiskJournal {
    records: Option<mpsc::Sender<Record>>,
    progress: watch::Receiver<Progress>,
    writer: Option<JoinHandle<()>>,
}

impl Journal for DiskJournal {
    fn append(&self, record: Record) {
        if let Some(records) = &self.records {
            // The writer ends early only by a failure, which `durable` tells.
            let _ = records.send(record);
        }
    }

    fn durable(&self, revision: u64) -> Pin<Box<dyn Future<Output = Result<(), JournalError>> + Send + '_>> {
        let mut progress = self.progress.clone();
        Box::pin(async move {
            let settled = |p: &Progress| p.revision >= revision || p.failure.is_some();
            match progress.wait_for(settled).await.map(|p| p.clone()) {
                Ok(Progress { revision: reached, .. }) if reached >= revision => Ok(()),
                Ok(Progress { failure, .. }) => {
                    Err(JournalError(failure.as_deref().unwrap_or("the disk can't be written to").into()))
                }
                Err(_) => Err(JournalError("the writer has ended".into())),
            }
        })
    }
}

impl Drop for DiskJournal {
    fn drop(&mut self) {
        // What was told is still written, and then the file is free again.
        self.records = None;
        if let Some(writer) = self.writer.take() {
            let _ = writer.join();
        }
    }
}

fn write_all(database: &Database, inbox: &mpsc::Receiver<Record>, reached: &watch::Sender<Progress>) {
    while let Ok(first) = inbox.recv() {
        match commit(database, std::iter::once(first).chain(inbox.try_iter())) {
            Ok(revision) => reached.send_modify(|p| p.revision = revision),
            Err(error) => {
                let why = error.to_string();
                tracing::error!(error = why, "the data directory can't be written to");
                reached.send_modify(|p| p.failure = Some(why.as_str().into()));
                return;
            }
        }
    }
}

/// Writes records in their order, in one step, and gives the last one's revision.
fn commit(database: &Database, records: impl Iterator<Item = Record>) -> Result<u64, redb::Error> {
    let transaction = database.begin_write()?;
    let mut last = 0;
    {
        let mut objects = transaction.open_table(OBJECTS)?;
        for record in records {
            let name = format!("{}\0{}", record.resource, record.key);
            last = record.revision;
            match &record.object {
                Some(object) => {
                    objects.insert(name.as_str(), (record.revision, record.created, &**object))?;
                }
                None => {
                    objects.remove(name.as_str())?;
                }
            }
        }
        transaction.open_table(COUNTERS)?.insert(REVISION, last)?;
    }
    transaction.commit()?;
    Ok(last)
}
