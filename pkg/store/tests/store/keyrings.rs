//! Keyrings, as other replicas find them.

use crate::support::Fixture;

pub(crate) async fn keyrings_above_a_version_are_found_highest_first_and_none_is_replaced(fixture: Fixture) {
    let store = &fixture.stores.keyrings;
    assert!(store.keyrings(0, 9).await.expect("an answer").is_empty());
    for version in [1, 3, 2] {
        assert!(store.publish(version, format!("ring {version}").as_bytes()).await.expect("kept"));
    }
    assert!(!store.publish(3, b"another").await.expect("an answer"), "one a version");
    let found = async |above, limit| store.keyrings(above, limit).await.expect("an answer");
    assert_eq!(found(0, 9).await, [b"ring 3", b"ring 2", b"ring 1"]);
    assert_eq!(found(0, 1).await, [b"ring 3"]);
    assert_eq!(found(2, 9).await, [b"ring 3"]);
    assert!(found(3, 9).await.is_empty());
}
