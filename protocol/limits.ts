/**
 * Every number that bounds something, by name. A limit that nobody can look up is a bug report waiting.
 */

// ---- HTTP ------------------------------------------------------------------------------------------------------
export const HTTP_BODY_BYTES_MAX = 1024 * 1024
export const HTTP_BODY_SECONDS_MAX = 30
export const JSON_DEPTH_MAX = 32
export const JSON_KEYS_MAX = 10_000
/** Keys that reach into an object's prototype; refused at any depth. */
export const JSON_KEYS_REFUSED: readonly string[] = ['__proto__', 'constructor', 'prototype']
export const LIST_LIMIT_MAX = 1000

/** A registered worker's frame is bounded by its bytes; usage snapshots have many small objects. */
export const WORKER_FRAME_KEYS_MAX = 100_000
/** Longest value that an error sentence repeats. */
export const ERROR_VALUE_CHARS_MAX = 60
export const ERROR_PATH_CHARS_MAX = 300

// ---- configuration ---------------------------------------------------------------------------------------------
export const CONFIG_BYTES_MAX = 1024 * 1024
export const SETTINGS_CHANGES_WAITING_MAX = 64
/** How often one patch is decided anew because the file was edited by hand under it. */
export const SETTINGS_TRIES_MAX = 5
export const PORT_MAX = 65_535
/** Above the workers' beat of 15 s, or each would be lost between two beats. */
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
export const REPOS_MAX = 1_000
export const REPO_KEY_CHARS_MAX = 200
export const CREDENTIAL_CHARS_MAX = 8 * 1024
/** A login is a small file's text. */
export const LOGIN_CHARS_MAX = 64 * 1024
export const SCRIPT_CHARS_MAX = 16 * 1024
export const INSTRUCTIONS_CHARS_MAX = 64 * 1024
export const PATH_CHARS_MAX = 4_096

// ---- dashboard sockets -----------------------------------------------------------------------------------------
export const DASHBOARD_SOCKETS_MAX = 1024
export const DASHBOARD_FRAME_BYTES_MAX = 64 * 1024
export const DASHBOARD_BACKLOG_BYTES_MAX = 4 * 1024 * 1024
export const DASHBOARD_SUBSCRIPTIONS_MAX = 1000
export const DASHBOARD_FRAMES_PER_10_SECONDS_MAX = 1000
export const SOCKET_IDLE_SECONDS = 60
export const HELLO_FINISHED_RUNS = 200

// ---- worker channel --------------------------------------------------------------------------------------------
export const PROTOCOL_VERSION = 1
export const WORKER_HEARTBEAT_MS = 15_000
export const WORKER_FIRST_FRAME_MS = 10_000
export const WORKER_FRAME_BYTES_MAX = 1024 * 1024
export const WORKER_UNREGISTERED_FRAME_BYTES_MAX = 64 * 1024
export const WORKER_MAX_USAGE_SNAPSHOT_BYTES = 4 * 1024 * 1024
export const WORKER_BUFFER_FRAMES_MAX = 10_000
export const WORKER_BUFFER_BYTES_MAX = 32 * 1024 * 1024
export const WORKER_CONCURRENCY_MAX = 64
export const ARTIFACT_PART_BYTES_MAX = 256 * 1024
export const LEASE_ACK_FRAMES = 512
export const LEASE_ACK_BYTES = 1024 * 1024
export const DISPATCH_ANSWER_MS = 10_000
export const WORKER_REFUSED_PAUSE_MS = 30_000
export const CANCEL_ANSWER_MS = 15_000
export const PAIRING_TOKEN_MS = 10 * 60_000

export const WORKER_LEASES_MAX = 1_024
export const RUN_MEMORIES_FACTS_MAX = 100
/** A longer fact is cut to MEMORY_CHARS_MAX by the host rather than costing the worker its connection. */
export const RUN_MEMORIES_FACT_CHARS_MAX = 4_096
export const USAGE_ENTRIES_MAX = 20_000
export const ATTACH_DATA_CHARS_MAX = 64 * 1024
export const TERMINAL_COLUMNS_MAX = 1_000
export const TERMINAL_ROWS_MAX = 1_000

// ---- names and texts -------------------------------------------------------------------------------------------
export const ID_CHARS_MAX = 256
export const NAME_CHARS_MAX = 512
export const URL_CHARS_MAX = 2_048
/** A sentence or two for a person: reasons, errors, titles. */
export const TEXT_CHARS_MAX = 16 * 1024
/** What somebody wrote: ticket descriptions, pull request bodies, comments. */
export const PROSE_CHARS_MAX = 128 * 1024
/** One log event; longer output is split by whoever reads it. */
export const LOG_TEXT_CHARS_MAX = 256 * 1024
export const PATCH_CHARS_MAX = 4 * 1024 * 1024
export const LABELS_MAX = 256
export const RUN_COSTS_MAX = 1_000
export const COST_MODELS_MAX = 100
export const RUN_ARTIFACTS_MAX = 10_000
export const FOLLOW_UP_ITEMS_MAX = 1_000
export const WORKER_NAME_CHARS_MAX = 60
export const ARTIFACT_NAME_BYTES_MAX = 255
export const ARTIFACT_BYTES_MAX = 1024 * 1024 * 1024
export const MEMORY_CHARS_MAX = 500
export const OAUTH_STATE_CHARS_MAX = 512

// ---- host ------------------------------------------------------------------------------------------------------
/** From the signal to the end of the process. */
export const STOP_MS_MAX = 5_000
/** Of that, what the doors may take to close. */
export const DRAIN_MS_MAX = 3_000
export const LAUNCH_TOKEN_CHARS_MIN = 32
export const LAUNCH_TOKEN_CHARS_MAX = 512
