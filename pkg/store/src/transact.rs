//! Every operation is one transaction in a task of its own.
//!
//! A transaction, because behind a pooler in transaction mode that alone keeps the steps of the wire protocol on one server
//! connection. A task, because a caller that stops waiting must not leave a connection half-way through a statement. A limit
//! and a hard close, because a connection whose peer went silent would else be handed to the next caller or keep its place
//! in the pool for good.

use crate::fault::Fault;
use sqlx::pool::PoolConnection;
use sqlx::{Connection, Database, Pool};
use std::pin::Pin;
use std::time::Duration;
use tokio::time::timeout;

/// What a transaction does.
pub(crate) type Work<'c, T> = Pin<Box<dyn Future<Output = Result<T, Fault>> + Send + 'c>>;

/// For how long a healthy connection may take to show so on its way back.
const RETURN_LIMIT: Duration = Duration::from_secs(1);

/// Runs `work` between `begin` and COMMIT; a fault rolls back. After `limit` the connection is given up.
pub(crate) async fn transact<DB, T, F>(
    pool: &Pool<DB>,
    begin: &'static str,
    limit: Duration,
    work: F,
) -> Result<T, Fault>
where
    DB: Database,
    T: Send + 'static,
    F: for<'c> FnOnce(&'c mut DB::Connection) -> Work<'c, T> + Send + 'static,
{
    let pool = pool.clone();
    let task = tokio::spawn(async move {
        let mut conn = pool.acquire().await.map_err(|e| Fault::NoConnection(e.to_string()))?;
        let done = timeout(limit, bracket::<DB, T, F>(&mut conn, begin, work)).await;
        let Bracket { done, closed } = done.unwrap_or(Bracket { done: Err(Fault::Late(limit)), closed: false });
        match &done {
            Err(fault) if fault.breaks_connection() || !closed => drop(conn.detach()),
            _ => give_back(conn).await,
        }
        done
    });
    task.await.unwrap_or_else(|e| Err(Fault::NoConnection(format!("the operation ended early: {e}"))))
}

/// How a transaction ended.
struct Bracket<T> {
    done: Result<T, Fault>,
    /// COMMIT or ROLLBACK succeeded. Else the connection and the database may disagree on whether a transaction is open (a
    /// full disk makes SQLite roll back by itself), and the connection must not be used again.
    closed: bool,
}

async fn bracket<DB, T, F>(conn: &mut DB::Connection, begin: &'static str, work: F) -> Bracket<T>
where
    DB: Database,
    F: for<'c> FnOnce(&'c mut DB::Connection) -> Work<'c, T>,
{
    let mut tx = match conn.begin_with(begin).await {
        Ok(tx) => tx,
        Err(error) => return Bracket { done: Err(error.into()), closed: false },
    };
    match work(&mut tx).await {
        Ok(value) => match tx.commit().await {
            Ok(()) => Bracket { done: Ok(value), closed: true },
            Err(error) => Bracket { done: Err(error.into()), closed: false },
        },
        Err(fault) => Bracket { done: Err(fault), closed: tx.rollback().await.is_ok() },
    }
}

/// The pool pings what comes back, without a limit: on a connection gone silent that would hold its place for good.
pub(crate) async fn give_back<DB: Database>(mut conn: PoolConnection<DB>) {
    if timeout(RETURN_LIMIT, conn.return_to_pool()).await.is_err() {
        tracing::warn!("a database connection fell silent and was dropped");
    }
}
