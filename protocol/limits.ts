/**
 * Every limit of the service, by name. A limit that nobody can look up becomes a bug report.
 */

// ---- HTTP ------------------------------------------------------------------------------------------------------
export const HTTP_BODY_BYTES_MAX = 1024 * 1024
export const HTTP_BODY_SECONDS_MAX = 30
/** The first line and the headers of a request, together. */
export const HTTP_HEAD_BYTES_MAX = 16 * 1024
export const HTTP_HEAD_SECONDS_MAX = 10
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
/** How many events of a run stand before an index when the request names no number. */
export const EVENTS_PAGE_DEFAULT = 100

/** Frames of registered workers are limited by bytes too; usage snapshots have many small objects. */
export const WORKER_FRAME_KEYS_MAX = 100_000
/** Longest value that an error message repeats. */
export const ERROR_VALUE_CHARS_MAX = 60
export const ERROR_PATH_CHARS_MAX = 300

// ---- the trail of actions --------------------------------------------------------------------------------------
/** The next entry after so many bytes begins another file of the trail. */
export const TRAIL_FILE_BYTES_MAX = 8 * 1024 * 1024
/** How many paths of settings an entry names. */
export const TRAIL_KEYS_MAX = 50
/** The longest name, id or path in an entry; the rest of a longer one is left out. */
export const TRAIL_TEXT_CHARS_MAX = 300

// ---- configuration ---------------------------------------------------------------------------------------------
export const CONFIG_BYTES_MAX = 1024 * 1024
export const SETTINGS_CHANGES_WAITING_MAX = 64
/** How often a patch is decided again because a hand edit changed the file meanwhile. */
export const SETTINGS_TRIES_MAX = 5
/** How long an invalid text of the configuration file must stay before it counts as an edit and not as half of one. */
export const CONFIG_SETTLE_MS = 1_000
/** How often an invalid text may be replaced by another before the last of them counts. */
export const CONFIG_SETTLE_TRIES_MAX = 10
export const PORT_MAX = 65_535
/** More than the workers' heartbeat interval of 15 s, or every worker would count as lost between two heartbeats. */
export const HEARTBEAT_TIMEOUT_SECONDS_MIN = 20
export const HEARTBEAT_TIMEOUT_SECONDS_MAX = 3_600
export const RECONNECT_GRACE_SECONDS_MAX = 86_400
export const TRACKER_POLL_SECONDS_MIN = 1
export const TRACKER_POLL_SECONDS_MAX = 86_400
export const RETENTION_HOURS_MAX = 24 * 365
/** How much longer than requested a worker may retain a sandbox: its clock may differ from the host's. */
export const RETENTION_SLACK_HOURS = 1
export const RUN_MINUTES_MAX = 7 * 24 * 60
export const RUN_TURNS_MAX = 100_000
export const RUN_COST_USD_MAX = 100_000
/** `init` writes it as `agent.maxCostUsd`. */
export const FIRST_RUN_COST_USD_MAX = 20
export const SANDBOX_MEMORY_MIB_MIN = 64
export const SANDBOX_MEMORY_MIB_MAX = 16 * 1024 * 1024
export const SANDBOX_PROCESSES_MIN = 16
export const SANDBOX_PROCESSES_MAX = 1_000_000
export const SANDBOX_DISK_GIB_MAX = 1_000_000
/**
 * The share of its disk that a worker's retained sandboxes may take without `sandbox.diskQuotaGib`. A share fits every
 * size of disk, and a quarter leaves room for running sandboxes, mirrors, and a second worker.
 */
export const SANDBOX_DISK_SHARE_DEFAULT = 0.25
/** A running sandbox is measured at least this often, and no sooner than the pause after the last time. */
export const SANDBOX_MEASURE_EVERY_MS = 30_000
export const SANDBOX_MEASURE_PAUSE_MS_MIN = 10_000
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
/** Repositories with a series of their own in the metrics of a host's lifetime. */
export const METRIC_REPOS_MAX = 200
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
/** Requests of one run to its model's API that are under way at once; subagents ask concurrently. */
export const MODEL_API_REQUESTS_MAX = 32
/** Connections from one sandbox. */
export const MODEL_API_CLIENTS_MAX = 64
export const MODEL_API_HEADER_BYTES_MAX = 64 * 1024
/** As much as the vendors accept. */
export const MODEL_API_BODY_BYTES_MAX = 32 * 1024 * 1024
/** Bytes of all bodies that a run's requests hold in the worker at once. */
export const MODEL_API_HELD_BYTES_MAX = 192 * 1024 * 1024
/** The text of a body without its files, which the worker parses in one turn: twice the longest context. */
export const MODEL_API_PARSED_BYTES_MAX = 8 * 1024 * 1024
/** Quotes, commas and opening brackets of a body: they bound the time and the memory of parsing. */
export const MODEL_API_PARSED_PARTS_MAX = 600_000
/** Entries of `agent.models`, and of `agent.prices`. */
export const MODEL_PATTERNS_MAX = 100
export const MODEL_PRICES_MAX = 200
/** Dollars for a million tokens. */
export const PRICE_USD_MAX = 100_000
/** How long the end of a run waits for answers that are still under way, to know what they cost. */
export const MODEL_API_SETTLE_MS_MAX = 5_000
/** The highest limit of an answer that counts, and the limit of a request that names none. */
export const MODEL_OUTPUT_TOKENS_MAX = 1_000_000
export const MODEL_OUTPUT_TOKENS_DEFAULT = 128_000
/** How long a sandbox may take to send a request. */
export const MODEL_API_REQUEST_MS_MAX = 120_000
/** How long a vendor may be silent: models think for minutes. */
export const MODEL_API_IDLE_MS_MAX = 600_000
/** Authors whose remarks a follow-up leaves out, as far as its job names them. */
export const UNHEARD_NAMED_MAX = 20
/** The message of a commit that a run publishes. */
export const COMMIT_MESSAGE_BYTES_MAX = 1024 * 1024
/** An answer that comes as one piece; the usage of a larger one is estimated. */
export const MODEL_ANSWER_BYTES_MAX = 16 * 1024 * 1024
export const MODEL_API_CONNECT_MS_MAX = 10_000
/** Connections of a worker to one vendor. */
export const MODEL_API_CONNECTIONS_MAX = 256

// ---- dashboard sockets -----------------------------------------------------------------------------------------
export const DASHBOARD_SOCKETS_MAX = 1024
export const DASHBOARD_FRAME_BYTES_MAX = 64 * 1024
export const DASHBOARD_BACKLOG_BYTES_MAX = 4 * 1024 * 1024
export const DASHBOARD_SUBSCRIPTIONS_MAX = 1000
export const DASHBOARD_FRAMES_PER_10_SECONDS_MAX = 1000
export const SOCKET_IDLE_SECONDS = 60
export const HELLO_FINISHED_RUNS = 200
/** Shortest interval between two pushes of one run; the last state is always pushed. */
export const RUN_PUSH_MS = 100
/** Shortest interval between two pushes of all workers: a large fleet's runs begin and end all the time. */
export const WORKERS_PUSH_MS = 100
export const WORKERS_PUSH_MS_PER_WORKER = 1
/** Bytes of pushes in one turn of the event loop, and of those that may wait for the next turns. */
export const PUSH_TURN_BYTES_MAX = 1024 * 1024
export const PUSH_WAITING_BYTES_MAX = 32 * 1024 * 1024
/**
 * Queued runs that are pushed again when their queue reason changes; clients read the reason of other runs on
 * request.
 */
export const QUEUE_REASON_PUSHES_MAX = 200

// ---- worker channel --------------------------------------------------------------------------------------------
export const PROTOCOL_VERSION = 1
/** The oldest version that this package speaks, too. */
export const PROTOCOL_VERSION_OLDEST = 1
export const WORKER_HEARTBEAT_MS = 15_000
/** A worker gives up a host from which it has heard nothing for this long. */
export const WORKER_HOST_SILENCE_MS = 45_000
/** While a worker is connected, the stored instant of its last heartbeat lies behind by at most this. */
export const WORKER_LAST_SEEN_LAG_MS = 5 * 60_000
export const WORKER_FIRST_FRAME_MS = 10_000
export const WORKER_FRAME_BYTES_MAX = 1024 * 1024
export const WORKER_UNREGISTERED_FRAME_BYTES_MAX = 64 * 1024
/** Bytes that may wait for a worker that does not read; above this its connection is closed. */
export const WORKER_BACKLOG_BYTES_MAX = 8 * 1024 * 1024
/**
 * A worker's connection without a received byte (pongs included) for this long counts as lost, whatever the
 * configuration says.
 */
export const WORKER_SOCKET_IDLE_SECONDS = 120
export const WORKER_MAX_USAGE_SNAPSHOT_BYTES = 4 * 1024 * 1024
export const WORKER_BUFFER_FRAMES_MAX = 10_000
export const WORKER_BUFFER_BYTES_MAX = 32 * 1024 * 1024
export const WORKER_CONCURRENCY_MAX = 64
/**
 * Usage snapshots outside any lease that are written to disk at once; others wait, and those beyond the limits are
 * dropped.
 */
export const UNLEASED_USAGE_SNAPSHOTS_AT_ONCE = 8
export const UNLEASED_USAGE_SNAPSHOTS_WAITING_MAX = 256
export const UNLEASED_USAGE_BYTES_WAITING_MAX = 32 * 1024 * 1024
export const ARTIFACT_PART_BYTES_MAX = 256 * 1024
export const LEASE_ACK_FRAMES = 512
export const LEASE_ACK_BYTES = 1024 * 1024
export const DISPATCH_ANSWER_MS = 10_000
/** How long a worker with a full disk makes room before it answers; its daemon waits half of DISPATCH_ANSWER_MS. */
export const DISPATCH_RECLAIM_MS_MAX = 3_000
export const WORKER_BACKOFF_MS = 30_000
/** How long a run tries to reach its repository in its slot, before it waits in the queue. */
export const UNREACHABLE_SECONDS = 20
/** After this long the host tries again what a worker could not use, such as a key. */
export const SETBACK_RECHECK_MS = 15 * 60_000
/** A repository is tried again after this long, then after twice as long, and at most after SETBACK_RECHECK_MS. */
export const REPOSITORY_RECHECK_MS_MIN = 60_000
export const SETBACKS_PER_WORKER_MAX = 1_000
/** How often a worker looks for the agents on its machine, and how long one look may take. */
export const AGENT_PROBE_MS = 10_000
export const AGENT_PROBE_MS_MAX = 5_000
export const AGENT_PROBLEM_CHARS_MAX = 500
export const CANCEL_ANSWER_MS = 15_000
export const PAIRING_TOKEN_MS = 10 * 60_000
/** This many dispatches refused because of the machine within the window put a worker on hold for WORKER_HOLD_MS. */
export const WORKER_HOLD_REJECTIONS = 3
export const WORKER_HOLD_WINDOW_MS = 5 * 60_000
export const WORKER_HOLD_MS = 10 * 60_000
/** Longest reason of a refused dispatch. */
export const REJECTION_CHARS_MAX = 500
/** The rest of a dispatch frame is for its other fields. */
export const JOB_BYTES_MAX = 768 * 1024
export const JOB_MEMORIES_BYTES_MAX = 64 * 1024
export const JOB_LABELS_BYTES_MAX = 16 * 1024
/** Pairing tokens that may be valid at once; above this the oldest is removed. */
export const PAIRING_TOKENS_MAX = 1_000
/** Join keys of a fleet, expired ones included. */
export const JOIN_KEYS_MAX = 100
export const JOIN_KEY_NAME_CHARS_MAX = 60
/** Connections that have proved a join key and not registered yet, of all keys together. */
export const WORKERS_JOINING_MAX = 512
export const EPHEMERAL_SECONDS_MAX = 7 * 24 * 3_600
/** Connections that have neither registered nor proved in their upgrade who they are: in all, and of one address. */
export const WORKERS_UNREGISTERED_MAX = 64
export const WORKERS_UNREGISTERED_PER_ADDRESS_MAX = 32
/** After this time without a first frame a newcomer of another address may take the connection's place. */
export const WORKER_SEAT_MS_MIN = 2_000
/** Connections of one worker, or with one pairing token, that have proved it and not registered yet. */
export const WORKERS_PROVEN_UNREGISTERED_MAX = 4
export const WORKERS_MAX = 10_000
/** An enrollment without a heartbeat after this time is removed: its worker never received the credential. */
export const ENROLLMENT_PROOF_MS = 10 * 60_000
/** A run fails after this many lost leases in a row. */
export const INTERRUPTIONS_MAX = 3
/** From this dispatch on, a run that is given back before its agent began fails; before, it is queued again. */
export const UNBEGUN_DISPATCHES_MAX = 20
/** The pause before finished work is published again: the first, which doubles each time, and the longest. */
export const PUBLISH_AGAIN_MS_MIN = 60_000
export const PUBLISH_AGAIN_MS_MAX = 3_600_000
/** Refused tries to publish, of all runs with the same cause together, from which on a person is asked. */
export const PUBLISH_TRIES_ATTENTION_MIN = 3
/** A larger bundle of unpublished commits stays in the sandbox only. A bundle counts as an artifact of its run. */
export const UNPUBLISHED_BUNDLE_BYTES_MAX = 64 * 1024 * 1024
/** Frame bytes that may wait for the disk, per lease and in total; frames beyond are requested again later. */
export const LEASE_PENDING_BYTES_MAX = 8 * 1024 * 1024
export const FRAMES_PENDING_BYTES_MAX = 128 * 1024 * 1024
/** Executions whose costs a worker keeps for a host that does not acknowledge them. */
export const SETTLEMENTS_KEPT_MAX = 256
/** Expired sandboxes that a worker names in one frame; the others follow in further frames. */
export const EXPIRED_SANDBOXES_MAX = 256
/** How long the end of a lease is remembered, for its late frames. */
export const ENDED_LEASES_KEPT_MS = 7 * 24 * 3_600_000
/** Longest wait before a failed ticket move is retried. */
export const TICKET_MOVE_RETRY_MS_MAX = 60_000
/** Time limit for a tracker call; drivers give up on a single request much sooner. */
export const TRACKER_ANSWER_MS_MAX = 120_000
/** How long a tracker may still show a ticket's old state after a move. */
export const TICKET_MOVE_VISIBLE_MS_MAX = 120_000
/** Runs that may be queued at once. */
export const QUEUED_RUNS_MAX = 100_000

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
/** The end of a log above its budget, which the worker holds back in memory until the execution ends. */
export const LOG_TAIL_BYTES_MAX = 2 * 1024 * 1024
export const LOG_TAIL_EVENTS_MAX = 1_000
/** The part of a log's budget that only records (status, costs, artifacts, sentences of the service) may use. */
export const LOG_RECORDS_BYTES_MAX = 1024 * 1024
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
export const MEMORIES_PER_REPO_MAX = 500
/** Facts that are known already do not count. */
export const NEW_FACTS_PER_RUN_MAX = 10
export const BRANCH_CHARS_MAX = 200
export const OAUTH_STATE_CHARS_MAX = 512

// ---- tickets ---------------------------------------------------------------------------------------------------
/** Tickets, labels or keys that a reason or refusal lists; the rest is counted. */
export const NAMES_LISTED_MAX = 20
/** Tickets visited to detect a blocker cycle; the check runs for thousands of waiting tickets in a row. */
export const BLOCKERS_WALKED_MAX = 100
/** The longest title that every tracker takes. */
export const TICKET_TITLE_CHARS_MAX = 256
export const TICKET_FILES_MAX = 10_000
/** Half of the store's key limit, because the id is a part of a key. */
export const TICKET_ID_BYTES_MAX = 256
export const TICKET_FILE_BYTES_MAX = 256 * 1024
export const TICKET_FILES_AT_ONCE = 32
/** How often a file is read again while it keeps changing; then its text is taken as it is. */
export const TICKET_READS_MAX = 3
/** Unreadable files that a listing names; the rest is counted. */
export const TICKET_PROBLEMS_MAX = 100

// ---- host ------------------------------------------------------------------------------------------------------
/** Time from the signal to the end of the process. */
export const STOP_MS_MAX = 5_000
/** Time from the end of all actors until the store is closed, in case its disk hangs. */
export const CLOSE_STORE_MS_MAX = 5_000
/** Further time for a copy that saves a lost database: at least, and by its size. */
export const RESCUE_MS_MIN = 30_000
export const RESCUE_BYTES_PER_SECOND_MIN = 1024 * 1024
/** The part of that time in which the host's own worker ends, and then the listeners close. */
export const DRAIN_MS_MAX = 3_800
/** Time that a service manager gives the stopping host: for its end, its store, and the copy of a lost database. */
export const SERVICE_STOP_SECONDS_MAX = 60
/** Time from the start of a service until it is ready: a large database may have to be read or copied first. */
export const SERVICE_BEGIN_SECONDS_MAX = 600
/** A command of the service manager; stopping the host is one. */
export const SERVICE_COMMAND_MS_MAX = 90_000
/** How often a service says how it is, unless its watchdog asks more often. */
export const SERVICE_STATUS_EVERY_MS = 30_000
export const SERVICE_STATUS_CHARS_MAX = 200
/** How long a worker tries to reach its host before it counts as ready all the same. */
export const WORKER_READY_MS_MAX = 3_000
/** A message to the service manager. */
export const SERVICE_NOTIFY_MS_MAX = 10_000
/** A process sets its own limit for core dumps. */
export const CORE_LIMIT_MS_MAX = 10_000
/** The program that locks a file of the data directory; a file system of the network may hang. */
export const FLOCK_MS_MAX = 10_000
/** How long `service install` waits until the host listens. */
export const SERVICE_START_MS_MAX = 15_000
export const LAUNCH_TOKEN_CHARS_MIN = 32
export const LAUNCH_TOKEN_CHARS_MAX = 512

// ---- a worker's process ----------------------------------------------------------------------------------------
export const WORKER_DRAIN_SECONDS_MAX = 7 * 24 * 3_600
export const WORKER_IDLE_SECONDS_MAX = 7 * 24 * 3_600
export const WORKER_STALL_MINUTES_MAX = 24 * 60

// ---- deployments ----------------------------------------------------------------------------------------------

/** The largest values of `switchyard deploy kubernetes`. */
export const DEPLOY_WORKERS_MAX = 10_000
export const DEPLOY_CPUS_MAX = 1_024
export const DEPLOY_MEMORY_GIB_MAX = 16_384
export const DEPLOY_DISK_GIB_MAX = 65_536

// ---- the worker that the host runs itself ----------------------------------------------------------------------
/** Wait between an end of the local worker and its next start; the wait doubles. */
export const LOCAL_WORKER_RESTART_MS_FIRST = 1_000
export const LOCAL_WORKER_RESTART_MS_MAX = 60_000
/** Wait after an end that a new start will hardly cure. */
export const LOCAL_WORKER_UNRECOVERABLE_MS = 5 * 60_000
/** After running this long, the worker counts as healthy again. */
export const LOCAL_WORKER_STEADY_MS = 60_000
/** Time for the local worker to stop before the stopping host kills it. */
export const LOCAL_WORKER_STOP_MS_MAX = 3_200
/** The part of that time in which the worker publishes what agents have finished. */
export const LAST_PUBLISH_MS_MAX = 2_500

// ---- HTTP clients ----------------------------------------------------------------------------------------------
/** Size and duration of a code host's or tracker's response. */
export const HTTP_ANSWER_BYTES_MAX = 16 * 1024 * 1024
export const HTTP_ANSWER_MS_MAX = 30_000
export const HTTP_TRIES_MAX = 3
export const HTTP_PAUSE_MS = 500
/** Longer requested pauses are not waited for. */
export const HTTP_PAUSE_MS_MAX = 20_000
export const HTTP_REDIRECTS_MAX = 3

// ---- credentials and connecting --------------------------------------------------------------------------------
/** Space for the longest code inside a URL. */
export const PASTED_CHARS_MAX = 16 * 1024
/** Time limit for an authorization by redirect. */
export const REDIRECT_FLOW_MS_MAX = 10 * 60_000
/** Redirect authorizations in progress at once; above this the oldest is forgotten. */
export const REDIRECT_FLOWS_MAX = 8
/** Time before its expiry at which a tracker's token is refreshed. */
export const TOKEN_REFRESH_AHEAD_MS = 5 * 60_000
export const TOKEN_REFRESH_RETRY_MS_FIRST = 5_000
export const TOKEN_REFRESH_RETRY_MS_MAX = 5 * 60_000

// ---- pull requests ---------------------------------------------------------------------------------------------
/** Interval of the poll of pull request states, and the number of recent runs it covers. */
export const PULL_POLL_MS = 2 * 60_000
export const PULL_POLL_RUNS_MAX = 200
/** Pauses between two questions whether a pull request is the run's, and how many are asked at once. */
export const PULL_CONFIRM_RETRY_MS_FIRST = 2_000
export const PULL_CONFIRM_RETRY_MS_MAX = 2 * 60_000
export const PULLS_CONFIRMED_AT_ONCE = 4
/** A run whose worker is lost waits this long for the code host to confirm its pull request, and then fails. */
export const PULL_ANSWER_MS_MAX = 60 * 60_000
/** Repositories that are listed at once. */
export const PULL_REPOS_AT_ONCE = 25
/** Pull requests listed per repository: open ones and closed ones. */
export const PULLS_OPEN_MAX = 500
export const PULLS_DONE_MAX = 30
export const PULL_FILES_LISTED_MAX = 3_000
/** Comments on lines that one review may bring. */
export const REVIEW_COMMENTS_MAX = 100
export const PULL_COMMITS_LISTED_MAX = 250
export const CODEHOST_REPOS_MAX = 1_000
export const TRACKER_PROJECTS_MAX = 1_000

// ---- the local code host ---------------------------------------------------------------------------------------
export const PULL_FILES_MAX = 10_000
export const PULL_FILE_BYTES_MAX = 4 * 1024 * 1024
/** Unreadable files that a listing names; the rest is counted. */
export const PULL_PROBLEMS_MAX = 100

// ---- the OAuth helper ------------------------------------------------------------------------------------------
export const HELPER_PORT = 4410
/** Space for the longest code or token and the rest of the body. */
export const HELPER_BODY_BYTES_MAX = 16 * 1024
/** Requests per client address, also as a burst. A device that waits for a person polls 12 times a minute. */
export const HELPER_REQUESTS_PER_MINUTE = 60
export const HELPER_REQUESTS_PER_MINUTE_MAX = 1_000_000
/** Client addresses that are tracked; above this the one with the oldest request is forgotten. */
export const HELPER_ADDRESSES_MAX = 10_000
/** Load balancers in a row in front of the helper. */
export const HELPER_PROXIES_MAX = 8
/** Time limit for an upstream response; less than a host waits for the helper. */
export const HELPER_UPSTREAM_MS_MAX = 20_000
export const HELPER_UPSTREAM_AT_ONCE_MAX = 256
export const HELPER_UPSTREAM_CHARS_MAX = 64 * 1024
/** Time from the signal to the end, to finish pending replies: a lost reply may have used up a refresh token. */
export const HELPER_DRAIN_MS_MAX = HELPER_UPSTREAM_MS_MAX + 2_000

// ---- programs that know the host's logins ------------------------------------------------------------------------
export const PROGRAM_OUTPUT_BYTES_MAX = 1024 * 1024
export const PROGRAM_MS_MAX = 20_000
export const LOGIN_FILE_BYTES_MAX = 64 * 1024
/** A login that expires sooner is useless for a run. */
export const LOGIN_LEFT_MS_MIN = 3_600_000

// ---- storage -----------------------------------------------------------------------------------------------------
/** Largest file that the bucket's program uploads. */
export const UPLOAD_BYTES_MAX = 300 * 1024 * 1024
export const UPLOAD_MS_MAX = 10 * 60_000
export const UPLOAD_KEY_BYTES_MAX = 1_024
/** Uploads that may be queued. */
export const UPLOADS_WAITING_MAX = 1_000
/** Time that the bucket's login waits for the person. */
export const STORAGE_LOGIN_MS_MAX = 5 * 60_000

// ---- terminals, on the host --------------------------------------------------------------------------------------
export const ATTACH_VIEWS_MAX = 256
export const ATTACH_VIEWS_PER_RUN_MAX = 16
/**
 * How long a booted sandbox without viewers stays, so that a page can be reloaded. Shorter than the worker's own
 * limit.
 */
export const ATTACH_GRACE_MS = 20_000
/** Time limit for booting a sandbox. */
export const ATTACH_BOOT_MS_MAX = 60_000
/** Releases that wait for a disconnected worker, per worker; more than a worker can have booted sandboxes. */
export const RELEASES_UNSENT_MAX = 256
/** Time from the end of a session until all viewers are notified. */
export const ATTACH_EXIT_MS_MAX = 5_000
/** Time in which a new view must report its size; after that a default size is used. */
export const ATTACH_SIZE_MS_MAX = 200
/** Size of a frame of a view. A paste is one `input` frame; the host splits it for the worker. */
export const ATTACH_FRAME_BYTES_MAX = 1024 * 1024
/** Typed characters that are buffered while the worker cannot receive them: at least one paste. */
export const ATTACH_TYPED_CHARS_MAX = ATTACH_FRAME_BYTES_MAX
/** Typed characters kept after sending, in case the worker's connection was already dead: at least one paste. */
export const ATTACH_HANDED_OVER_CHARS_MAX = ATTACH_FRAME_BYTES_MAX
/** Bytes that may wait for a view that does not read; above this it is disconnected. */
export const ATTACH_BACKLOG_BYTES_MAX = 4 * 1024 * 1024
/** Input of one view: average rate and burst. A person may paste a long text or hold a key down. */
export const ATTACH_INPUT_BYTES_PER_SECOND = 256 * 1024
export const ATTACH_INPUT_BYTES_AT_ONCE = 2 * 1024 * 1024
export const ATTACH_FRAMES_PER_SECOND = 200
export const ATTACH_FRAMES_AT_ONCE = 2_000
/** How long ended terminal sessions are remembered, for usage exports that arrive late. */
export const SESSIONS_KEPT_MS = 31 * 24 * 3_600_000

// ---- follow-ups, on the host -------------------------------------------------------------------------------------
/** The discussion of a pull request inside a job. */
export const JOB_DISCUSSION_BYTES_MAX = 384 * 1024
/** A remark, a thread of remarks, and the diff hunk of a thread. */
export const FOLLOW_UP_TEXT_CHARS_MAX = 16 * 1024
export const FOLLOW_UP_THREAD_BYTES_MAX = 64 * 1024
export const FOLLOW_UP_HUNK_CHARS_MAX = 4 * 1024
/** A pull request that was read longer ago is read again before its follow-up is dispatched. */
export const FOLLOW_UP_FRESH_MS = 5 * 60_000
export const FOLLOW_UP_RETRY_MS_FIRST = 2_000
export const FOLLOW_UP_RETRY_MS_MAX = 5 * 60_000
/** Pull requests that are read at once, and that are kept in memory after reading. */
export const FOLLOW_UP_READS_AT_ONCE = 4
export const FOLLOW_UP_READS_KEPT = 32

// ---- attention: what needs a person -------------------------------------------------------------------------------
export const ATTENTION_ID_CHARS_MAX = 512
/** The pause between two slices of 256 KiB at most, while a host looks for damaged logs. */
export const LOG_CHECK_PAUSE_MS = 25
/** Damaged records that a process remembers. */
export const DAMAGE_KNOWN_MAX = 1_000
/** Items of one kind; older ones wait until a newer one is gone. */
export const ATTENTION_ITEMS_PER_KIND_MAX = 50
/** More runs of one item are counted in its message. */
export const ATTENTION_ITEM_RUNS_MAX = 50
export const ATTENTION_ITEMS_MAX = 11 * ATTENTION_ITEMS_PER_KIND_MAX
/** Newest runs that are read at the start, and ended runs that are kept in view. */
export const ATTENTION_RUNS_MAX = 1_000
/** A changed list is pushed to dashboards at most once in this time. */
export const ATTENTION_PUSH_MS = 500

// ---- tools for agents (`switchyard mcp`) -------------------------------------------------------------------------
/** A message of the client, in one line. */
export const MCP_LINE_BYTES_MAX = HTTP_BODY_BYTES_MAX
/** Calls that may run at once; a further call is refused. */
export const MCP_CALLS_MAX = 16
/** The JSON of a result. Clients give it to a model, whose context is small. */
export const MCP_RESULT_BYTES_MAX = 32 * 1024
/** Records of a list when the call names no number, and at most. */
export const MCP_PAGE_DEFAULT = 20
export const MCP_PAGE_MAX = 100
/** Events of a log when the call names no number. */
export const MCP_LOG_EVENTS_DEFAULT = 100
/** A text inside a record of a list, and a text of a log. */
export const MCP_TITLE_CHARS_MAX = 200
export const MCP_LOG_TEXT_CHARS_MAX = 2_000
/** The official client library gives up on a call after 60 seconds. */
export const MCP_WAIT_SECONDS_DEFAULT = 45
export const MCP_WAIT_SECONDS_MAX = 3_600
/** Pause between two reports of progress. Clients start their time limit anew at each. */
export const MCP_PROGRESS_MS = 5_000
/** Time for calls in flight after the client has closed its end. */
export const MCP_CLOSE_MS_MAX = 2_000

// ---- the doctor ----------------------------------------------------------------------------------------------------
/** Time limit of one check, with all its requests. */
export const DOCTOR_CHECK_MS_MAX = 20_000
/** A disk with less free space gets a warning before it is full. */
export const DOCTOR_FREE_BYTES_MIN = 4 * 1024 * 1024 * 1024
/** A clock that is off by more confuses logs and schedules; by still more, certificates and tokens. */
export const DOCTOR_CLOCK_WARN_MS = 30_000
export const DOCTOR_CLOCK_FAIL_MS = 5 * 60_000
/** Repositories whose rights are read. */
export const DOCTOR_REPOS_MAX = 20
/** The end of the host's log in a bundle, and the files of the data directory that it lists. */
export const BUNDLE_LOG_BYTES_MAX = 1024 * 1024
export const BUNDLE_LOG_LINES_MAX = 2_000
export const BUNDLE_FILES_LISTED_MAX = 2_000

// ---- provisioning over SSH ---------------------------------------------------------------------------------------
/** Machines that may be provisioned at once. */
export const PROVISIONS_MAX = 4
export const PROVISION_CONNECT_MS_MAX = 15_000
/** The time limit of a step on the target that copies nothing. */
export const PROVISION_STEP_MS_MAX = 120_000
/** The time limit of one copy. */
export const PROVISION_COPY_MS_MAX = 10 * 60_000
/** How long a started worker may take until it is online. */
export const PROVISION_ONLINE_MS_MAX = 60_000
/** How long an upgrade waits for the worker's runs; after that the earlier version stays in use. */
export const PROVISION_DRAIN_MS_MAX = 30 * 60_000
/** How often a waiting provisioning reads the state of its worker. */
export const PROVISION_POLL_MS = 250
/** How long a host that stops undoes what its provisionings have begun. */
export const PROVISION_STOP_MS_MAX = 3_000
/** A client waits longer than all steps of an upgrade together. */
export const PROVISION_ANSWER_MS_MAX = 60 * 60_000
/** The output of one remote command; a command that writes more is ended. */
export const PROVISION_OUTPUT_BYTES_MAX = 64 * 1024
/** How much of a failed command's output an error quotes. */
export const PROVISION_TAIL_CHARS_MAX = 1_000
/** The free space that a target must have besides the copied files: what a run needs to start. */
export const PROVISION_FREE_BYTES_MIN = 1024 * 1024 * 1024
export const PROVISION_FREE_FILES_MIN = 20_000
/** Longer key and known_hosts files are not read. */
export const SSH_FILE_BYTES_MAX = 4 * 1024 * 1024
// ---- the supervisor of a worker ------------------------------------------------------------------------------------

/** How long nothing may have been in flight before a stop. As long as a terminal without a view stays open. */
export const SUPERVISOR_QUIET_MS = 30_000
/** A worker that was not stopped and is away for this long is started when there is work. */
export const SUPERVISOR_ABSENT_MS = 180_000
/** A worker that was started has this long to connect. */
export const SUPERVISOR_JOIN_MS = 600_000
/** A worker that is still connected this long after its stop was started by somebody else. */
export const SUPERVISOR_REJOIN_MS = 60_000
/** So long a sleeping worker that was told of a queued run keeps others asleep. */
export const WAKE_TURN_MS = 180_000
/** The pauses after failed commands, ended workers and unanswered requests. */
export const SUPERVISOR_RETRY_MS_FIRST = 5_000
export const SUPERVISOR_RETRY_MS_MAX = 300_000
/** Time limit of a request to the host. */
export const SUPERVISOR_REQUEST_MS_MAX = 15_000
/** The longest interval, idle time and uptime that options may set. */
export const SUPERVISOR_SECONDS_MAX = 604_800
export const SUPERVISOR_COMMAND_SECONDS_MAX = 3_600
/** The longest word list of a start or stop command. */
export const SUPERVISOR_COMMAND_WORDS_MAX = 256

// ---- what leaves a sandbox -------------------------------------------------------------------------------------------

/** The bytes of one content unpacked that are searched for secrets. */
export const UNPACKED_BYTES_MAX = 256 * 1024 * 1024
/** The entries of one archive that are unpacked; each costs a sixth of a millisecond. */
export const UNPACKED_ENTRIES_MAX = 50_000
/** The places that a report about keys in a run's work names, and the length of a path there. */
export const FOUND_KEYS_MAX = 20
export const FOUND_KEY_FILE_CHARS_MAX = 200
/** The keys that a search of a run's work remembers; more hold the work without being compared with what is known. */
export const SEARCHED_KEYS_MAX = 1_000
/** How long the objects of a run's commits may be searched for secrets. */
export const SECRET_SEARCH_MS_MAX = 10 * 60_000

// ---- the network of a sandbox ----------------------------------------------------------------------------------------

/** Lock files and manifests that are looked at, and the bytes of each. */
export const LOCK_FILES_MAX = 100
export const LOCK_FILE_BYTES_MAX = 8 * 1024 * 1024
/** Names below wildcards of `sandbox.allowedHosts` that one sandbox may reach. */
export const WILDCARD_NAMES_MAX = 50
/** Hosts that lock files may add to `sandbox.allowedHosts`. */
export const NETWORK_HOSTS_DERIVED_MAX = 40

// ---- pages -----------------------------------------------------------------------------------------------------------

/** Stable, so that the page can be installed as an app. */
export const DASHBOARD_PORT = 4402
/** How long the code of a page's link is good, and how many of them at once. */
export const PAGE_CODE_SECONDS = 60
export const PAGE_CODES_MAX = 16
/** Browsers that are signed in to one page; the one that was used longest ago is forgotten for another. */
export const PAGE_SESSIONS_MAX = 64
/** Sockets of browsers, and requests that wait for the host, at one time. */
export const PAGE_SOCKETS_MAX = 64
export const PAGE_REQUESTS_MAX = 256
/** The body that signs a browser in, and how many of them may be on their way; one more ends the oldest. */
export const PAGE_SESSION_BYTES_MAX = 1024
export const PAGE_SIGN_INS_MAX = 16
/** Programs that listen at a page's port, and what one may send. */
export const PROGRAM_SOCKETS_MAX = 16
export const PROGRAM_FRAME_BYTES_MAX = 64 * 1024
/** The bytes that a browser may send before its socket has reached the host. */
export const PAGE_SOCKET_EARLY_BYTES_MAX = 256 * 1024

// ---- inspection ------------------------------------------------------------------------------------------------

export const INSPECT_PORT = 4403
/** A story that is opened; one that is recorded ends at this size. */
export const STORY_BYTES_MAX = 256 * 1024 * 1024
/** Any text of an inspection frame: ids, names of states, events and fields. */
export const INSPECT_TEXT_CHARS_MAX = 256
export const INSPECT_ACTOR_FRAME_MAX = 2_000
export const INSPECT_RECORD_FRAME_MAX = 500
/** The records that are remembered for each actor while somebody watches. */
export const INSPECT_RECENT_MAX = 200
export const INSPECT_FOLLOWED_MAX = 64
export const INSPECT_VIEWERS_MAX = 16
/** The fields of one event, effect or context that are shown. */
export const INSPECT_FIELDS_MAX = 64
/** The records that are remembered for all actors together. */
export const INSPECT_REMEMBERED_MAX = 100_000
/** How long changes of actors are collected before they are sent. */
export const INSPECT_COLLECT_MS = 100
/** The bytes that may wait for a viewer; records above it are left out and counted. */
export const INSPECT_BACKLOG_BYTES_MAX = 4 * 1024 * 1024
/** The actors that one worker shares, and those in one frame of it. */
export const SHARED_ACTORS_MAX = 500
/** The frame with which a viewer says whom it follows. */
export const INSPECT_REQUEST_BYTES_MAX = 64 * 1024
/** The records that wait for the next frame to one viewer. */
export const INSPECT_QUEUED_MAX = 10_000
