//! The index in memory keeps what every vector index promises.

use signet_vector::FlatIndex;

signet_testkit::vector_index_contract!(flat, FlatIndex::new(1_000));
