use crate::support::{Fixture, tenant};
use tokio::task::JoinSet;

pub(crate) async fn eight_callers_at_once_get_one_secret(fixture: Fixture) {
    let mut tasks = JoinSet::new();
    for n in 1..=8 {
        let keys = fixture.stores.keys.clone();
        tasks.spawn(async move { keys.secret_or_insert([n; 32]).await.expect("a secret") });
    }
    let found = tasks.join_all().await;
    assert!(found.iter().all(|secret| *secret == found[0]), "{found:?}");
    assert!((1..=8).contains(&found[0][0]) && found[0] == [found[0][0]; 32]);
    let again = fixture.stores.keys.secret_or_insert([99; 32]).await.expect("a secret");
    assert_eq!(again, found[0]);
}

pub(crate) async fn eight_callers_at_once_get_one_tenant_key(fixture: Fixture) {
    let mut tasks = JoinSet::new();
    for n in 1..=8 {
        let keys = fixture.stores.keys.clone();
        tasks.spawn(async move { keys.tenant_key_or_insert(tenant(1), &[n; 60]).await.expect("a key") });
    }
    let found = tasks.join_all().await;
    assert!(found.iter().all(|key| *key == found[0] && key.0 == 1), "{found:?}");
}

pub(crate) async fn tenants_have_keys_of_their_own(fixture: Fixture) {
    let keys = fixture.stores.keys;
    assert_eq!(keys.tenant_key_or_insert(tenant(1), b"one").await.expect("a key"), (1, b"one".to_vec()));
    assert_eq!(keys.tenant_key_or_insert(tenant(2), b"two").await.expect("a key"), (1, b"two".to_vec()));
    assert_eq!(keys.tenant_key_or_insert(tenant(1), b"late").await.expect("a key"), (1, b"one".to_vec()));
}

pub(crate) async fn a_key_is_found_by_its_epoch(fixture: Fixture) {
    let keys = fixture.stores.keys.clone();
    keys.tenant_key_or_insert(tenant(1), b"first").await.expect("a key");
    fixture.execute("INSERT INTO tenant_key (tenant, epoch, wrapped) SELECT tenant, 2, '\\x7a' FROM tenant_key").await;
    assert_eq!(keys.tenant_key(tenant(1), 1).await.expect("a read"), Some(b"first".to_vec()));
    assert_eq!(keys.tenant_key(tenant(1), 3).await.expect("a read"), None);
    assert_eq!(keys.tenant_key(tenant(2), 1).await.expect("a read"), None);
    assert_eq!(keys.tenant_key_or_insert(tenant(1), b"late").await.expect("a key").0, 2, "the newest epoch");
}

pub(crate) async fn an_erased_key_is_gone_and_its_epoch_is_not_used_again(fixture: Fixture) {
    let keys = fixture.stores.keys;
    for n in 1..=2 {
        keys.tenant_key_or_insert(tenant(n), b"first").await.expect("a key");
    }
    assert_eq!(keys.erase_tenant(tenant(1)).await.expect("a write"), 1);
    assert_eq!(keys.erase_tenant(tenant(1)).await.expect("a write"), 0);
    assert_eq!(keys.tenant_key(tenant(1), 1).await.expect("a read"), None);
    assert_eq!(keys.tenant_key_or_insert(tenant(1), b"second").await.expect("a key"), (2, b"second".to_vec()));
    assert_eq!(keys.tenant_key_or_insert(tenant(1), b"late").await.expect("a key"), (2, b"second".to_vec()));
    assert_eq!(keys.tenant_key(tenant(2), 1).await.expect("a read"), Some(b"first".to_vec()), "another tenant's");
}
