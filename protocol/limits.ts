/**
 * The limits of the wire, and those that several files share, by name. A limit of one file stands in that file. A limit
 * that nobody can look up becomes a bug report.
 */

// ---- HTTP ------------------------------------------------------------------------------------------------------
export const HTTP_BODY_BYTES_MAX = 1024 * 1024
export const HTTP_BODY_SECONDS_MAX = 30
/** A connection without a request, or one that does not read its reply. */
export const HTTP_IDLE_SECONDS_MAX = 10
export const JSON_DEPTH_MAX = 32
export const JSON_KEYS_MAX = 10_000
/** Keys that reach into an object's prototype; refused at every depth. */
export const JSON_KEYS_REFUSED: readonly string[] = ['__proto__', 'constructor', 'prototype']
export const LIST_LIMIT_MAX = 1000
/** A sorted list is searched as a whole for each page. */
export const RUNS_SKIPPED_MAX = 10_000
/** The names and failures of a summary of runs, each. */
export const RUN_SUMMARY_NAMES_MAX = 200
/** The values in a summary of tickets, of each kind. */
export const TICKET_SUMMARY_NAMES_MAX = 200
/** How many events of a run stand before an index when the request names no number. */
export const EVENTS_PAGE_DEFAULT = 100

/** Frames of registered workers are limited by bytes too; usage snapshots have many small objects. */
export const WORKER_FRAME_KEYS_MAX = 100_000
/** Longest value that an error message repeats. */
export const ERROR_VALUE_CHARS_MAX = 60
export const ERROR_PATH_CHARS_MAX = 300

// ---- configuration ---------------------------------------------------------------------------------------------
export const CONFIG_BYTES_MAX = 1024 * 1024
export const SETTINGS_CHANGES_WAITING_MAX = 64
export const PORT_MAX = 65_535
/** More than the workers' heartbeat interval of 15 s, or every worker would count as lost between two heartbeats. */
export const HEARTBEAT_TIMEOUT_SECONDS_MIN = 20
export const HEARTBEAT_TIMEOUT_SECONDS_MAX = 3_600
export const RECONNECT_GRACE_SECONDS_MAX = 86_400
export const TRACKER_POLL_SECONDS_MIN = 1
export const TRACKER_POLL_SECONDS_MAX = 86_400
export const RETENTION_HOURS_MAX = 24 * 365
export const RUN_MINUTES_MAX = 7 * 24 * 60
export const RUN_TURNS_MAX = 100_000
export const RUN_COST_USD_MAX = 100_000
export const SANDBOX_MEMORY_MIB_MIN = 64
export const SANDBOX_MEMORY_MIB_MAX = 16 * 1024 * 1024
export const SANDBOX_PROCESSES_MIN = 16
export const SANDBOX_PROCESSES_MAX = 1_000_000
export const SANDBOX_DISK_GIB_MAX = 1_000_000
export const CONFIG_LIST_MAX = 256
/** The budgets of a run, in MiB: its stored events, and its artifacts. */
export const RUN_LOG_MIB_MIN = 1
export const RUN_LOG_MIB_MAX = 4_096
export const RUN_ARTIFACTS_MIB_MIN = 1
export const RUN_ARTIFACTS_MIB_MAX = 1024 * 1024
export const REPOS_MAX = 1_000
/** Keys that one change of the settings may confirm: each repository has a few, and so have the other sections. */
export const CONFIRMED_KEYS_MAX = 10_000
/** A key of a setting as people write it, with the key of a repository in it. */
export const SETTING_KEY_CHARS_MAX = 512
/** Local days whose costs the host keeps for its metrics: today and the day before. */
export const COST_DAYS_KEPT_MAX = 2
export const REPO_KEY_CHARS_MAX = 200
export const CREDENTIAL_CHARS_MAX = 8 * 1024
/** A login is the text of a small file. */
export const LOGIN_CHARS_MAX = 64 * 1024
export const SCRIPT_CHARS_MAX = 16 * 1024
export const INSTRUCTIONS_CHARS_MAX = 64 * 1024
/** The instructions of a person for one run, in UTF-8. */
export const RUN_INSTRUCTIONS_BYTES_MAX = 16 * 1024
export const PATH_CHARS_MAX = 4_096

// ---- models' APIs ----------------------------------------------------------------------------------------------
export const MODEL_API_HEADER_BYTES_MAX = 64 * 1024
/** As much as the vendors accept. */
export const MODEL_API_BODY_BYTES_MAX = 32 * 1024 * 1024
/** Entries of `agent.models`, and of `agent.prices`. */
export const MODEL_PATTERNS_MAX = 100
export const MODEL_PRICES_MAX = 200
/** Dollars for a million tokens. */
export const PRICE_USD_MAX = 100_000
/** How long a vendor may be silent: models think for minutes. */
export const MODEL_API_IDLE_MS_MAX = 600_000
/** Authors whose remarks a follow-up leaves out, as far as its job names them. */
export const UNHEARD_NAMED_MAX = 20

// ---- dashboard sockets -----------------------------------------------------------------------------------------
export const DASHBOARD_BACKLOG_BYTES_MAX = 4 * 1024 * 1024
export const SOCKET_IDLE_SECONDS = 60

// ---- worker channel --------------------------------------------------------------------------------------------
export const PROTOCOL_VERSION = 1
/** The oldest version that this package speaks, too. */
export const PROTOCOL_VERSION_OLDEST = 1
export const WORKER_HEARTBEAT_MS = 15_000
/** A worker gives up a host from which it has heard nothing for this long. */
export const WORKER_HOST_SILENCE_MS = 45_000
export const WORKER_FIRST_FRAME_MS = 10_000
export const WORKER_FRAME_BYTES_MAX = 1024 * 1024
export const WORKER_UNREGISTERED_FRAME_BYTES_MAX = 64 * 1024
export const WORKER_MAX_USAGE_SNAPSHOT_BYTES = 4 * 1024 * 1024
export const WORKER_BUFFER_FRAMES_MAX = 10_000
export const WORKER_BUFFER_BYTES_MAX = 32 * 1024 * 1024
export const WORKER_CONCURRENCY_MAX = 64
export const ARTIFACT_PART_BYTES_MAX = 256 * 1024
export const DISPATCH_ANSWER_MS = 10_000
export const WORKER_BACKOFF_MS = 30_000
/** How long one look for the agents on a machine may take. */
export const AGENT_PROBE_MS_MAX = 5_000
export const AGENT_PROBLEM_CHARS_MAX = 500
export const CANCEL_ANSWER_MS = 15_000
/** Longest reason of a refused dispatch. */
export const REJECTION_CHARS_MAX = 500
/** The rest of a dispatch frame is for its other fields. */
export const JOB_BYTES_MAX = 768 * 1024
/** Join keys of a fleet, expired ones included. */
export const JOIN_KEYS_MAX = 100
export const JOIN_KEY_NAME_CHARS_MAX = 60
export const EPHEMERAL_SECONDS_MAX = 7 * 24 * 3_600
export const WORKERS_MAX = 10_000
/** The pause before finished work is published again: the first, which doubles each time, and the longest. */
export const PUBLISH_AGAIN_MS_MIN = 60_000
/** Expired sandboxes that a worker names in one frame; the others follow in further frames. */
export const EXPIRED_SANDBOXES_MAX = 256

export const WORKER_LEASES_MAX = 1_024
export const RUN_MEMORIES_FACTS_MAX = 100
/** The host truncates a longer fact to MEMORY_CHARS_MAX instead of closing the worker's connection. */
export const RUN_MEMORIES_FACT_CHARS_MAX = 4_096
export const USAGE_ENTRIES_MAX = 20_000
/** Characters of terminal data in one frame; longer data is split into several frames. */
export const ATTACH_DATA_CHARS_MAX = 64 * 1024
export const TERMINAL_COLUMNS_MAX = 1_000
export const TERMINAL_ROWS_MAX = 1_000

// ---- names and texts -------------------------------------------------------------------------------------------
export const ID_CHARS_MAX = 256
export const NAME_CHARS_MAX = 512
export const URL_CHARS_MAX = 2_048
/** The name of a user of the host's machine; systems allow fewer. */
export const HOST_USER_CHARS_MAX = 256
/** A sentence or two for a person: reasons, errors, titles. */
export const TEXT_CHARS_MAX = 16 * 1024
/** Text that people write: ticket descriptions, pull request bodies, comments. */
export const PROSE_CHARS_MAX = 128 * 1024
/** The end of what a failed check reported. */
export const CHECK_REPORT_CHARS_MAX = 4 * 1024
/** Text of a log event; the reader splits longer output. */
export const LOG_TEXT_CHARS_MAX = 256 * 1024
/** Bytes of a log event as JSON; the sender splits longer output. */
export const LOG_EVENT_BYTES_MAX = 256 * 1024
/** A text that is truncated in an oversized frame keeps at least this many bytes of JSON. */
export const TRUNCATED_TEXT_BYTES_MIN = 2 * 1024
/** Number of models that merged usage entries distinguish. */
export const MERGED_USAGE_MODELS_MAX = 50
/** An agent's JSON is nested in a frame and in a push, and the whole must pass the JSON limits above. */
export const AGENT_MESSAGE_DEPTH_MAX = 24
export const AGENT_MESSAGE_KEYS_MAX = 9_000
export const AGENT_MESSAGE_VALUES_MAX = 50_000
export const PATCH_CHARS_MAX = 4 * 1024 * 1024
export const LABELS_MAX = 256
export const RUN_COSTS_MAX = 1_000
export const COST_MODELS_MAX = 100
/** Largest amount, sums included. */
export const USD_MAX = 1e9
export const RUN_ARTIFACTS_MAX = 10_000
export const FOLLOW_UP_ITEMS_MAX = 1_000
export const WORKER_NAME_CHARS_MAX = 60
export const ARTIFACT_NAME_BYTES_MAX = 255
export const ARTIFACT_BYTES_MAX = 1024 * 1024 * 1024
export const MEMORY_CHARS_MAX = 500
export const OAUTH_STATE_CHARS_MAX = 512

// ---- tickets ---------------------------------------------------------------------------------------------------
/** Tickets, labels or keys that a reason or refusal lists; the rest is counted. */
export const NAMES_LISTED_MAX = 20
/** The longest title that every tracker takes. */
export const TICKET_TITLE_CHARS_MAX = 256
export const TICKET_FILES_MAX = 10_000
/** Half of the store's key limit, because the id is a part of a key. */
export const TICKET_ID_BYTES_MAX = 256
export const TICKET_FILE_BYTES_MAX = 256 * 1024
/** Unreadable files that a listing names; the rest is counted. */
export const TICKET_PROBLEMS_MAX = 100

// ---- host ------------------------------------------------------------------------------------------------------
export const LAUNCH_TOKEN_CHARS_MAX = 512

// ---- a worker's process ----------------------------------------------------------------------------------------
export const WORKER_IDLE_SECONDS_MAX = 7 * 24 * 3_600

// ---- HTTP clients ----------------------------------------------------------------------------------------------
/** Size and duration of a code host's or tracker's response. */
export const HTTP_ANSWER_BYTES_MAX = 16 * 1024 * 1024
export const HTTP_ANSWER_MS_MAX = 30_000
export const HTTP_PAUSE_MS = 500
/** Longer requested pauses are not waited for. */
export const HTTP_PAUSE_MS_MAX = 20_000

// ---- credentials and connecting --------------------------------------------------------------------------------
/** Space for the longest code inside a URL. */
export const PASTED_CHARS_MAX = 16 * 1024

// ---- pull requests ---------------------------------------------------------------------------------------------
/** Pull requests listed per repository: open ones and closed ones. */
export const PULLS_OPEN_MAX = 500
export const PULLS_DONE_MAX = 30
export const PULL_FILES_LISTED_MAX = 3_000
/** Comments on lines that one review may bring. */
export const REVIEW_COMMENTS_MAX = 100
export const PULL_COMMITS_LISTED_MAX = 250
export const CODEHOST_REPOS_MAX = 1_000
export const TRACKER_PROJECTS_MAX = 1_000

// ---- the OAuth helper ------------------------------------------------------------------------------------------
/** Time limit for an upstream response; less than a host waits for the helper. */
export const HELPER_UPSTREAM_MS_MAX = 20_000
/** Time from the signal to the end, to finish pending replies: a lost reply may have used up a refresh token. */
export const HELPER_DRAIN_MS_MAX = HELPER_UPSTREAM_MS_MAX + 2_000

// ---- programs that know the host's logins ------------------------------------------------------------------------
export const PROGRAM_MS_MAX = 20_000

// ---- storage -----------------------------------------------------------------------------------------------------
/** Time that the bucket's login waits for the person. */
export const STORAGE_LOGIN_MS_MAX = 5 * 60_000

// ---- terminals, on the host --------------------------------------------------------------------------------------
export const ATTACH_VIEWS_MAX = 256
/** Size of a frame of a view. A paste is one `input` frame; the host splits it for the worker. */
export const ATTACH_FRAME_BYTES_MAX = 1024 * 1024
/** Input of one view: average rate and burst. A person may paste a long text or hold a key down. */
export const ATTACH_INPUT_BYTES_PER_SECOND = 256 * 1024
export const ATTACH_INPUT_BYTES_AT_ONCE = 2 * 1024 * 1024
export const ATTACH_FRAMES_PER_SECOND = 200

// ---- follow-ups, on the host -------------------------------------------------------------------------------------
/** The discussion of a pull request inside a job. */
export const JOB_DISCUSSION_BYTES_MAX = 384 * 1024

// ---- attention: what needs a person -------------------------------------------------------------------------------
export const ATTENTION_ID_CHARS_MAX = 512
/** Items of one kind; older ones wait until a newer one is gone. */
export const ATTENTION_ITEMS_PER_KIND_MAX = 50
/** More runs of one item are counted in its message. */
export const ATTENTION_ITEM_RUNS_MAX = 50
export const ATTENTION_ITEMS_MAX = 11 * ATTENTION_ITEMS_PER_KIND_MAX
/** Newest runs that are read at the start, and ended runs that are kept in view. */
export const ATTENTION_RUNS_MAX = 1_000

// ---- tools for agents (`switchyard mcp`) -------------------------------------------------------------------------
/** The JSON of a result. Clients give it to a model, whose context is small. */
export const MCP_RESULT_BYTES_MAX = 32 * 1024
/** Records of a list when the call names no number, and at most. */
export const MCP_PAGE_DEFAULT = 20
export const MCP_PAGE_MAX = 100
/** Events of a log when the call names no number. */
export const MCP_LOG_EVENTS_DEFAULT = 100
/** The official client library gives up on a call after 60 seconds. */
export const MCP_WAIT_SECONDS_DEFAULT = 45
export const MCP_WAIT_SECONDS_MAX = 3_600

// ---- provisioning over SSH ---------------------------------------------------------------------------------------
/** The time limit of a step on the target that copies nothing. */
export const PROVISION_STEP_MS_MAX = 120_000
/** A client waits longer than all steps of an upgrade together. */
export const PROVISION_ANSWER_MS_MAX = 60 * 60_000

// ---- the supervisor of a worker ------------------------------------------------------------------------------------
/** The pauses after failed commands, ended workers and unanswered requests. */
export const SUPERVISOR_RETRY_MS_FIRST = 5_000
export const SUPERVISOR_RETRY_MS_MAX = 300_000

// ---- what leaves a sandbox -------------------------------------------------------------------------------------------
/** The places that a report about keys in a run's work names, and the length of a path there. */
export const FOUND_KEYS_MAX = 20
export const FOUND_KEY_FILE_CHARS_MAX = 200

// ---- pages -----------------------------------------------------------------------------------------------------------

/** Stable, so that the page can be installed as an app. */
export const DASHBOARD_PORT = 4402

// ---- inspection ------------------------------------------------------------------------------------------------

export const INSPECT_PORT = 4403
/** Any text of an inspection frame: ids, names of states, events and fields. */
export const INSPECT_TEXT_CHARS_MAX = 256
export const INSPECT_ACTOR_FRAME_MAX = 2_000
export const INSPECT_RECORD_FRAME_MAX = 500
/** The records that are remembered for each actor while somebody watches. */
export const INSPECT_RECENT_MAX = 200
export const INSPECT_FOLLOWED_MAX = 64
/** The guards of one event that a record names. */
export const INSPECT_GUARDS_MAX = 32
export const INSPECT_VIEWERS_MAX = 16
/** The fields of one event, effect or context that are shown. */
export const INSPECT_FIELDS_MAX = 64
/** How long changes of actors are collected before they are sent. */
export const INSPECT_COLLECT_MS = 100
/** The bytes that may wait for a viewer; records above it are left out and counted. */
export const INSPECT_BACKLOG_BYTES_MAX = 4 * 1024 * 1024
/** The actors that one worker shares, and those in one frame of it. */
export const SHARED_ACTORS_MAX = 500
