//! One suite for every implementation of [`Catalogue`].
//!
//! [`catalogue_conformance!`](crate::catalogue_conformance) makes a test of each case here; each case gets a catalogue of
//! its own, and after each the catalogue must find nothing wrong with itself. [`model`] compares random operations with
//! a small tree in memory; [`concurrency`] lets eight callers loose on one space.

#![expect(missing_docs, reason = "the name of a case is a sentence about behaviour")]

pub mod accounts;
pub mod administration;
pub mod bonds;
pub mod concurrency;
pub mod deferred;
pub mod deferred_names;
pub mod factors;
pub mod instances;
pub mod jobs;
pub mod locks;
pub mod model;
pub mod packs;
pub mod posix;
pub mod quota;
pub mod relocation;
pub mod resumable;
pub mod search;
pub mod searches;
pub mod shares;
pub mod spaces;
mod stage;
pub mod tags;
pub mod trash;
pub mod tree;
pub mod uploads;
pub mod versions;

pub use stage::*;

use crate::catalogue::Catalogue;
use std::sync::Arc;

/// Fails if the catalogue finds anything wrong with itself; the end of every case.
pub async fn finish(catalogue: &Arc<dyn Catalogue>) {
    let findings = catalogue.check(false).await.expect("the check runs");
    assert!(findings.is_empty(), "{findings:#?}");
}

/// Makes the suite's tests for one implementation. `$open` is the path of an async function that answers a fresh
/// `Arc<dyn Catalogue>` and something to keep alive beside it.
#[macro_export]
macro_rules! catalogue_conformance {
    ($open:path) => {
        $crate::catalogue_conformance! { @cases $open;
            accounts: an_account_comes_with_its_home_and_slots, a_taken_name_is_refused, changes_void_cached_sign_ins,
                a_slot_of_a_single_kind_is_replaced, a_token_is_found_by_its_lookup,
                a_new_password_ends_every_session_but_the_one_kept, failed_sign_ins_count_and_lapse,
                traffic_is_summed_by_day, a_removed_account_leaves_nothing, a_shared_space_keeps_its_owner;
            factors: codes_count_once, passkeys_are_found_and_count_up, factors_go_all_at_once, a_key_is_the_same_for_all,
                identities_are_of_one_account, groups_give_memberships_and_take_them_back;
            spaces: spaces_are_listed_home_first, a_space_keeps_an_owner, changes_take_effect_at_once,
                a_removed_space_leaves_nothing, a_home_space_does_not_go_alone, members_come_and_go,
                a_space_is_handed_over_to_a_member, a_change_needs_its_writer_to_be_there_still,
                what_somebody_shut_out_has_under_way_does_not_end, changes_are_told_after_they_are_made;
            tree: a_walk_answers_what_exists, a_file_is_no_folder, what_is_there_is_not_made_again,
                expectations_are_tested_with_the_change, members_are_listed_in_byte_order_and_pages,
                nodes_below_are_counted_up_to_a_limit, a_change_counts_for_its_node_alone,
                properties_change_in_order_or_not_at_all, content_is_read_back, the_root_stays;
            relocation: a_move_keeps_what_a_node_is, a_move_replaces_only_if_told_to, nothing_moves_into_itself,
                a_node_can_replace_its_own_folder, a_copy_shares_content, a_copy_of_many_members_is_whole, a_copy_is_deep_or_not,
                a_folder_is_copied_into_itself_as_it_was, a_copy_may_replace_a_part_of_its_source,
                the_source_is_what_it_was_expected_to_be;
            versions: an_overwritten_file_keeps_its_version, a_space_without_retention_keeps_none,
                the_newest_versions_stay, an_old_version_is_made_current_without_more_bytes, a_version_is_removed_for_good,
                versions_expire_by_age, versions_expire_by_bytes, versions_expire_when_the_bound_is_lowered, versions_thin_out_as_they_age,
                a_space_that_kept_each_version_begins_to_thin_them;
            trash: what_is_removed_is_listed_and_put_back, putting_back_needs_a_place, purging_frees_bytes_at_once,
                garbage_is_released_step_by_step, trash_expires, removing_without_retention_purges,
                versions_in_the_trash_can_go_alone, trash_is_listed_in_pages;
            locks: a_locked_file_is_written_by_its_holder_only, a_lock_on_a_folder_protects_its_members,
                a_deep_lock_covers_what_is_below, a_folder_with_a_lock_inside_stays, shared_locks_share,
                locks_that_conflict_are_refused, a_lapsed_lock_is_nothing, a_lock_makes_an_empty_file,
                locks_are_refreshed_and_released_by_their_holder, locks_do_not_move, a_place_between_locks_is_free,
                a_refusal_names_the_lock, locks_are_listed_with_their_paths, locks_of_an_account_end_with_it;
            quota: a_space_is_full_at_its_quota, an_account_is_full_over_all_its_spaces, reserved_bytes_count,
                what_was_reserved_can_be_committed, deleting_works_when_over_quota, a_copy_over_quota_leaves_nothing,
                a_file_may_shrink_over_quota;
            uploads: a_small_file_of_blocks_is_one_step, an_upload_arrives_in_runs, missing_blocks_are_named,
                a_block_is_stored_once, runs_must_be_in_order, sizes_must_match, an_abandoned_upload_leaves_nothing,
                an_upload_of_nothing_is_an_empty_file, a_long_upload_fills_several_chunks,
                nothing_comes_alive_in_a_pack_that_is_not_open;
            resumable: it_holds_what_it_says, it_holds_no_more_than_was_declared, it_has_one_writer, it_outlives_instances,
                it_ends_under_its_conditions_or_stays, what_was_declared_fits_even_if_the_quota_was_lowered,
                a_finished_one_is_remembered_for_a_while, an_expired_one_gives_everything_back,
                it_goes_with_its_account_space_or_membership, an_account_has_a_limited_number,
                its_file_has_the_tags_it_was_begun_with;
            instances: an_instance_is_known_until_it_leaves, the_one_before_on_a_data_directory_is_given_up,
                what_is_nobodys_is_given_up, an_instance_that_was_given_up_can_do_no_harm, a_lease_has_one_holder;
            jobs: a_run_is_followed_from_its_beginning_to_the_last_of_its_steps, a_time_is_dealt_with_once,
                what_is_asked_for_is_begun_once_or_taken_back, the_history_of_a_job_is_bounded_and_comes_in_pages,
                who_lost_the_lease_changes_nothing;
            packs: live_bytes_follow_references, a_dead_pack_is_forgotten, blocks_move_unless_they_are_gone,
                packs_and_blocks_are_listed_in_pages;
            search: names_are_found_from_where_a_word_begins, every_word_is_on_the_path_and_one_in_the_name,
                what_changed_is_found_as_it_is, better_hits_come_first, filters_let_through_what_they_say,
                only_the_spaces_asked_for_are_searched, a_query_has_bounds,
                a_word_that_is_everywhere_is_looked_for_up_to_a_bound,
                a_file_is_found_by_its_folder_among_many_of_its_name,
                a_file_is_found_by_its_folder_however_large_both_are;
            shares: a_share_goes_where_its_folder_goes, a_share_is_named_beside_others, a_change_through_a_share_needs_it,
                a_share_ends_with_its_maker_space_and_account, a_visit_ends_with_its_link, downloads_are_counted_once_a_visit,
                there_are_so_many_visits, a_search_below_a_folder_looks_nowhere_else, an_upload_through_a_share_ends_with_it,
                an_upload_through_a_share_does_not_end_elsewhere, an_upload_of_a_visitor_takes_room_as_it_comes,
                an_upload_of_a_visitor_ends_with_the_visit, visitors_have_a_limited_number_of_uploads,
                a_link_of_somebody_shut_out_changes_nothing, a_change_through_a_share_needs_more_than_reading;
            tags: tags_are_added_and_removed, tags_go_where_their_node_goes, many_nodes_are_tagged_at_once,
                a_node_has_so_many_tags, tags_in_use_below_a_folder_are_those_and_no_others,
                a_file_comes_with_its_tags_or_not_at_all;
            searches: a_search_is_saved_and_read_back, names_are_of_one_account_and_free, what_finds_nothing_is_not_saved,
                an_account_saves_so_many, its_folder_is_followed, saved_searches_end_with_their_account;
            posix: a_node_is_made_with_its_attributes_and_content, members_come_in_pages_with_their_attributes,
                attributes_change_and_hold_until_another_face_writes,
                a_link_is_a_file_to_others_and_becomes_one_when_they_write, a_file_is_rewritten_only_from_what_it_is,
                names_go_as_posix_has_it, a_rename_replaces_refuses_or_exchanges, what_is_open_stays_until_it_is_let_go,
                extended_attributes_are_set_by_rule_and_bounded;
            bonds: names_of_a_file_change_together, a_file_keeps_its_number_and_a_name_that_goes_is_another_file,
                a_link_is_refused_where_it_must_be, a_lock_on_one_name_is_one_on_all,
                a_folder_that_goes_takes_its_names_out, an_old_version_comes_back_under_all_names,
                names_of_one_file_are_renamed_as_posix_has_it, a_file_is_held_by_its_last_name,
                what_a_mount_answered_finds_the_file_by_any_number, a_space_that_goes_takes_its_bonds_with_it;
            deferred: what_is_made_and_written_in_one_batch_is_there_once, content_in_blocks_is_made_by_its_number, going_through_a_journal_again_changes_nothing,
                one_refusal_spoils_nothing_else, what_was_refused_may_come_again, what_others_did_meanwhile_is_kept_beside,
                times_of_folders_and_attributes_come_in_order, numbers_are_given_out_once,
                numbers_that_were_given_are_remembered, a_folder_has_no_content;
            deferred_names: renames_and_removals_come_in_their_order_and_once,
                what_others_did_to_names_meanwhile_is_never_undone, what_a_lock_refuses_comes_again_and_what_needs_it_waits;
            administration: entries_are_found_newest_first_by_every_filter, the_log_is_bounded_by_age_and_number,
                a_change_is_written_with_its_note_or_not_at_all, nodes_say_how_they_do, what_is_stored_is_summed;
            model: random_operations_do_what_the_model_does;
            concurrency: eight_callers_leave_a_sound_catalogue, one_of_many_makers_wins;
        }
    };
    (@cases $open:path; $($subject:ident: $($case:ident),+;)+) => {
        $(mod $subject {
            $(#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
            async fn $case() {
                let (catalogue, _kept) = $open().await;
                $crate::conformance::$subject::$case(&catalogue).await;
                $crate::conformance::finish(&catalogue).await;
            })+
        })+
    };
}
