//! What every store promises, checked on both databases by the same tests.

/// Runs every named function of `$suite` as a test on a fresh `$fixture`.
macro_rules! contract {
    ($module:ident, $suite:ident, $fixture:ident: $($name:ident)*) => {
        mod $module {
            $(#[tokio::test]
            async fn $name() {
                crate::$suite::$name(crate::support::Fixture::$fixture().await).await;
            })*
        }
    };
}

macro_rules! record_store_contract {
    ($module:ident, $fixture:ident) => {
        contract!($module, records, $fixture:
            a_shipped_batch_is_found_again_byte_for_byte
            a_batch_shipped_twice_is_held_once
            an_overlapping_batch_adds_only_what_is_new
            a_later_epoch_fences_the_earlier_one
            the_same_epoch_with_another_key_is_a_second_writer
            a_batch_beyond_the_end_is_a_gap
            a_batch_with_a_hole_or_a_stray_record_changes_nothing
            another_record_at_a_held_seq_is_equivocation_and_changes_nothing
            an_unregistered_log_and_a_missed_takeover_are_not_shipped_to
            a_record_is_found_by_its_own_tenant_only
            records_come_in_pages_and_show_holes
            what_cannot_be_parsed_is_shipped_all_the_same
            a_nul_in_a_model_name_does_not_stop_the_log
            batches_larger_than_one_statement_arrive_whole
            shipping_from_many_tasks_at_once_holds_every_record_once
            logs_are_listed_by_id
            a_tenants_records_are_listed_newest_first_page_by_page
            a_payload_that_is_erased_leaves_its_row_and_its_leaf
            the_copies_beside_a_record_are_what_it_says
            values_that_their_columns_cannot_hold_are_no_difference
        );
    };
}

macro_rules! judge_contract {
    ($module:ident, $fixture:ident) => {
        contract!($module, judged, $fixture:
            no_flipped_bit_of_a_stored_row_goes_unseen
            rows_whose_payload_is_gone_are_read_as_erased
            a_later_kind_without_columns_is_read_as_not_indexed
            rows_that_nobody_would_look_for_are_told
            a_row_that_cannot_be_read_is_a_finding_and_hides_no_other
        );
    };
}

macro_rules! gap_contract {
    ($module:ident, $fixture:ident) => {
        contract!($module, gaps, $fixture:
            a_declared_gap_is_passed_and_stays_a_declared_hole
            gaps_side_by_side_are_passed_one_after_the_other
            what_does_not_declare_exactly_what_is_missing_passes_nothing
            only_the_owning_epoch_passes_a_gap
        );
    };
}

macro_rules! entry_store_contract {
    ($module:ident, $fixture:ident) => {
        contract!($module, entries, $fixture:
            entries_come_back_in_the_order_of_appearance
            a_cursor_shows_only_what_appeared_behind_it
            pages_cover_everything_once
            a_newer_entry_replaces_an_older_one_and_appears_again
            an_older_entry_does_not_replace_a_newer_one
            the_latest_come_first
            a_key_twice_in_one_batch_keeps_the_newest
            expired_entries_are_left_out_and_swept
            many_writers_of_the_same_keys_do_not_deadlock
        );
    };
}

macro_rules! key_store_contract {
    ($module:ident, $fixture:ident) => {
        contract!($module, keys, $fixture:
            eight_callers_at_once_get_one_secret
            eight_callers_at_once_get_one_tenant_key
            tenants_have_keys_of_their_own
            a_key_is_found_by_its_epoch
            an_erased_key_is_gone_and_its_epoch_is_not_used_again
        );
    };
}

macro_rules! notice_store_contract {
    ($module:ident, $fixture:ident) => {
        contract!($module, notices, $fixture:
            notices_come_back_as_they_were_in_their_order
            a_cursor_shows_only_the_notices_behind_it
            a_notice_without_meaning_is_left_out_and_goes_with_the_next_one
        );
    };
}

macro_rules! label_store_contract {
    ($module:ident, $fixture:ident) => {
        contract!($module, labels, $fixture:
            labels_come_back_as_they_were_in_their_order
            a_cursor_shows_only_the_labels_behind_it_page_by_page
            a_decision_is_labelled_once
            what_is_in_a_mark_is_removed_but_for_the_newest_of_each_kind
            what_is_in_a_mark_and_before_a_reset_is_removed
            a_later_mark_stays_and_each_route_has_its_own
        );
    };
}

macro_rules! tree_store_contract {
    ($module:ident, $fixture:ident) => {
        contract!($module, trees, $fixture:
            the_newest_checkpoint_is_found_and_each_one_stays
            a_smaller_or_a_different_checkpoint_is_refused
            only_the_owner_of_a_known_log_publishes
            tiles_grow_and_never_shrink
            leaf_hashes_come_up_to_the_first_hole
        );
    };
}

macro_rules! capture_store_contract {
    ($module:ident, $fixture:ident) => {
        contract!($module, captures, $fixture:
            sealed_bodies_are_kept_once_and_found_by_their_record
            what_was_erased_is_gone_and_does_not_come_back_from_a_late_writer
            what_is_old_or_was_erased_is_swept
        );
    };
}

macro_rules! keyring_store_contract {
    ($module:ident, $fixture:ident) => {
        contract!($module, keyrings, $fixture:
            keyrings_above_a_version_are_found_highest_first_and_none_is_replaced
        );
    };
}

macro_rules! prune_store_contract {
    ($module:ident, $fixture:ident) => {
        contract!($module, prune, $fixture:
            what_is_old_is_told_by_the_first_record_that_is_not
            nothing_goes_without_a_stored_prune_and_then_only_what_is_below
            of_several_prunes_the_furthest_counts_and_of_equal_ones_the_newest
            leaf_hashes_of_what_was_dropped_come_from_the_tiles
            the_leaf_of_an_erased_record_is_still_told
        );
    };
}

record_store_contract!(postgres_records, postgres);
record_store_contract!(postgres_before_records, postgres_before);
record_store_contract!(sqlite_records, sqlite);
judge_contract!(postgres_judged, postgres);
judge_contract!(postgres_before_judged, postgres_before);
judge_contract!(sqlite_judged, sqlite);
gap_contract!(postgres_gaps, postgres);
gap_contract!(postgres_before_gaps, postgres_before);
gap_contract!(sqlite_gaps, sqlite);
entry_store_contract!(postgres_entries, postgres);
entry_store_contract!(sqlite_entries, sqlite);
key_store_contract!(postgres_keys, postgres);
key_store_contract!(sqlite_keys, sqlite);
notice_store_contract!(postgres_notices, postgres);
notice_store_contract!(sqlite_notices, sqlite);
label_store_contract!(postgres_labels, postgres);
label_store_contract!(sqlite_labels, sqlite);
tree_store_contract!(postgres_trees, postgres);
tree_store_contract!(postgres_before_trees, postgres_before);
tree_store_contract!(sqlite_trees, sqlite);
capture_store_contract!(postgres_captures, postgres);
capture_store_contract!(sqlite_captures, sqlite);
keyring_store_contract!(postgres_keyrings, postgres);
keyring_store_contract!(sqlite_keyrings, sqlite);
prune_store_contract!(postgres_prune, postgres);
prune_store_contract!(postgres_before_prune, postgres_before);
prune_store_contract!(sqlite_prune, sqlite);
