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
/** How much longer than asked a worker may say that it keeps a sandbox: its clock need not agree with the host's. */
export const RETENTION_SLACK_HOURS = 1
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
/** A run that changes faster is told of at this pace, its last state always. */
export const RUN_PUSH_MS = 100
export const WORKERS_PUSH_MS = 100
/** Queued runs that are pushed anew when what they wait for changes; the others say it when they are asked. */
export const QUEUE_REASON_PUSHES_MAX = 200

// ---- worker channel --------------------------------------------------------------------------------------------
export const PROTOCOL_VERSION = 1
export const WORKER_HEARTBEAT_MS = 15_000
export const WORKER_FIRST_FRAME_MS = 10_000
export const WORKER_FRAME_BYTES_MAX = 1024 * 1024
export const WORKER_UNREGISTERED_FRAME_BYTES_MAX = 64 * 1024
/** What may wait for a worker that does not read, before its line is cut. */
export const WORKER_BACKLOG_BYTES_MAX = 8 * 1024 * 1024
/** Without a byte from it, pongs included, for so long a worker's line counts as gone, whatever the configuration waits for. */
export const WORKER_SOCKET_IDLE_SECONDS = 120
export const WORKER_MAX_USAGE_SNAPSHOT_BYTES = 4 * 1024 * 1024
export const WORKER_BUFFER_FRAMES_MAX = 10_000
export const WORKER_BUFFER_BYTES_MAX = 32 * 1024 * 1024
export const WORKER_CONCURRENCY_MAX = 64
/** Usage snapshots outside any lease that are being put on disk; others wait, and those beyond are not kept. */
export const UNLEASED_USAGE_SNAPSHOTS_AT_ONCE = 8
export const UNLEASED_USAGE_SNAPSHOTS_WAITING_MAX = 256
export const UNLEASED_USAGE_BYTES_WAITING_MAX = 32 * 1024 * 1024
export const ARTIFACT_PART_BYTES_MAX = 256 * 1024
export const LEASE_ACK_FRAMES = 512
export const LEASE_ACK_BYTES = 1024 * 1024
export const DISPATCH_ANSWER_MS = 10_000
export const WORKER_BACKOFF_MS = 30_000
export const CANCEL_ANSWER_MS = 15_000
export const PAIRING_TOKEN_MS = 10 * 60_000
/** This many dispatches refused for the machine's own sake within the window put a worker on hold for so long. */
export const WORKER_HOLD_REJECTIONS = 3
export const WORKER_HOLD_WINDOW_MS = 5 * 60_000
export const WORKER_HOLD_MS = 10 * 60_000
/** Of why a dispatch was refused. */
export const REJECTION_CHARS_MAX = 500
/** A dispatch frame keeps the rest for its envelope. */
export const JOB_BYTES_MAX = 768 * 1024
export const JOB_MEMORIES_BYTES_MAX = 64 * 1024
export const JOB_LABELS_BYTES_MAX = 16 * 1024
/** Tokens that may wait for their machine at once; more, and the oldest dies. */
export const PAIRING_TOKENS_MAX = 1_000
/** Connections that have not said who they are. */
export const WORKERS_UNREGISTERED_MAX = 64
export const WORKERS_MAX = 10_000
/** An enrollment whose worker has not sent a heartbeat by then never got its credential. */
export const ENROLLMENT_PROOF_MS = 10 * 60_000
/** Leases lost in a row until a run fails. */
export const INTERRUPTIONS_MAX = 3
/** What may wait for the disk, of one lease's frames and of all; what comes beyond is asked for again later. */
export const LEASE_PENDING_BYTES_MAX = 8 * 1024 * 1024
export const FRAMES_PENDING_BYTES_MAX = 128 * 1024 * 1024
/** How long it is remembered how a lease ended, for its late frames. */
export const ENDED_LEASES_KEPT_MS = 7 * 24 * 3_600_000
/** How long at most until a ticket that could not be moved is tried again. */
export const TICKET_MOVE_RETRY_MS_MAX = 60_000
/** What a tracker may take to answer; drivers give up on one request much sooner. */
export const TRACKER_ANSWER_MS_MAX = 120_000
/** How long a tracker may go on showing a ticket where it was, after having moved it. */
export const TICKET_MOVE_VISIBLE_MS_MAX = 120_000
/** Runs that may wait at once. */
export const QUEUED_RUNS_MAX = 100_000

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
/** Longer output is split into several log events by its sender, as JSON counts. */
export const LOG_EVENT_BYTES_MAX = 256 * 1024
/** A text that has to give way in a frame that is too long keeps as much, as JSON counts. */
export const TRUNCATED_TEXT_BYTES_MIN = 2 * 1024
/** Merged usage entries keep so many models apart. */
export const MERGED_USAGE_MODELS_MAX = 50
/** An agent's own JSON travels inside a frame inside a push, and all of it has to stay within the gate for JSON. */
export const AGENT_MESSAGE_DEPTH_MAX = 24
export const AGENT_MESSAGE_KEYS_MAX = 9_000
export const AGENT_MESSAGE_VALUES_MAX = 50_000
export const PATCH_CHARS_MAX = 4 * 1024 * 1024
export const LABELS_MAX = 256
export const RUN_COSTS_MAX = 1_000
export const COST_MODELS_MAX = 100
/** One figure, sums included. */
export const USD_MAX = 1e9
export const RUN_ARTIFACTS_MAX = 10_000
export const FOLLOW_UP_ITEMS_MAX = 1_000
export const WORKER_NAME_CHARS_MAX = 60
export const ARTIFACT_NAME_BYTES_MAX = 255
export const ARTIFACT_BYTES_MAX = 1024 * 1024 * 1024
export const MEMORY_CHARS_MAX = 500
export const MEMORIES_PER_REPO_MAX = 500
export const BRANCH_CHARS_MAX = 200
export const OAUTH_STATE_CHARS_MAX = 512

// ---- tickets ---------------------------------------------------------------------------------------------------
/** One reason or refusal names so many tickets, labels or keys, and counts the rest. */
export const NAMES_LISTED_MAX = 20
/** Tickets looked at to find out whether one waits for itself; asked of each that waits, so of thousands in a row. */
export const BLOCKERS_WALKED_MAX = 100
export const TICKET_FILES_MAX = 10_000
/** Half of what the store takes as a key, of which it is a part. */
export const TICKET_ID_BYTES_MAX = 256
export const TICKET_FILE_BYTES_MAX = 256 * 1024
export const TICKET_FILES_AT_ONCE = 32
/** A file that keeps changing while it is read is read so often, and then taken as it is. */
export const TICKET_READS_MAX = 3
/** One picture names so many unreadable files, and counts the rest. */
export const TICKET_PROBLEMS_MAX = 100

// ---- host ------------------------------------------------------------------------------------------------------
/** From the signal to the end of the process. */
export const STOP_MS_MAX = 5_000
/** Of that, what the doors may take to close. */
export const DRAIN_MS_MAX = 3_000
export const LAUNCH_TOKEN_CHARS_MIN = 32
export const LAUNCH_TOKEN_CHARS_MAX = 512

// ---- a worker's process ----------------------------------------------------------------------------------------
export const WORKER_DRAIN_SECONDS_MAX = 7 * 24 * 3_600
export const WORKER_STALL_MINUTES_MAX = 24 * 60

// ---- the worker that the host runs itself ----------------------------------------------------------------------
/** Between its end and the next start, doubling. */
export const LOCAL_WORKER_RESTART_MS_FIRST = 1_000
export const LOCAL_WORKER_RESTART_MS_MAX = 60_000
/** After an end that starting again will hardly cure. */
export const LOCAL_WORKER_UNRECOVERABLE_MS = 5 * 60_000
/** Having worked for so long, it counts as well again. */
export const LOCAL_WORKER_STEADY_MS = 60_000
/** When the host stops, before it is killed. */
export const LOCAL_WORKER_STOP_MS_MAX = 2_000

// ---- services on the web ---------------------------------------------------------------------------------------
/** One answer of a code host or a tracker, and the time it may take. */
export const HTTP_ANSWER_BYTES_MAX = 16 * 1024 * 1024
export const HTTP_ANSWER_MS_MAX = 30_000
export const HTTP_TRIES_MAX = 3
export const HTTP_PAUSE_MS = 500
/** A service that asks for a longer pause is not waited for. */
export const HTTP_PAUSE_MS_MAX = 20_000
export const HTTP_REDIRECTS_MAX = 3

// ---- credentials and connecting --------------------------------------------------------------------------------
/** A code of full length in an address of its own. */
export const PASTED_CHARS_MAX = 16 * 1024
/** How long a journey through a consent page may take. */
export const REDIRECT_FLOW_MS_MAX = 10 * 60_000
/** Journeys under way at once; of more, the oldest is forgotten. */
export const REDIRECT_FLOWS_MAX = 8
/** A tracker's token is refreshed so long before it runs out. */
export const TOKEN_REFRESH_AHEAD_MS = 5 * 60_000
export const TOKEN_REFRESH_RETRY_MS_FIRST = 5_000
export const TOKEN_REFRESH_RETRY_MS_MAX = 5 * 60_000

// ---- pull requests ---------------------------------------------------------------------------------------------
/** How often the state of the runs' pull requests is asked for, and of how many of the most recent runs. */
export const PULL_POLL_MS = 2 * 60_000
export const PULL_POLL_RUNS_MAX = 200
/** Repositories that are asked at once. */
export const PULL_REPOS_AT_ONCE = 25
/** Of one repository, the open ones that are listed, and how many of the others. */
export const PULLS_OPEN_MAX = 500
export const PULLS_DONE_MAX = 30
export const PULL_FILES_LISTED_MAX = 3_000
export const PULL_COMMITS_LISTED_MAX = 250
export const CODEHOST_REPOS_MAX = 1_000
export const TRACKER_PROJECTS_MAX = 1_000

// ---- the local code host ---------------------------------------------------------------------------------------
export const PULL_FILES_MAX = 10_000
export const PULL_FILE_BYTES_MAX = 4 * 1024 * 1024
/** One look names so many unreadable files, and counts the rest. */
export const PULL_PROBLEMS_MAX = 100

// ---- the OAuth helper ------------------------------------------------------------------------------------------
export const HELPER_PORT = 4410
/** A code or a token of full length, and what stands around it. */
export const HELPER_BODY_BYTES_MAX = 16 * 1024
/** Of one client address; as many may come at once. A device that waits for its person asks 12 times a minute. */
export const HELPER_REQUESTS_PER_MINUTE = 60
export const HELPER_REQUESTS_PER_MINUTE_MAX = 1_000_000
/** Client addresses that are counted; of more, the one that asked least recently is forgotten. */
export const HELPER_ADDRESSES_MAX = 10_000
/** Balancers in a row before it. */
export const HELPER_PROXIES_MAX = 8
/** What an upstream may take to answer; less than a host waits for the helper. */
export const HELPER_UPSTREAM_MS_MAX = 20_000
export const HELPER_UPSTREAM_AT_ONCE_MAX = 256
export const HELPER_UPSTREAM_CHARS_MAX = 64 * 1024
/** From the signal to the end, for replies that somebody waits for: what is cut off may have used up a refresh token. */
export const HELPER_DRAIN_MS_MAX = HELPER_UPSTREAM_MS_MAX + 2_000

// ---- programs of the host that know its logins -------------------------------------------------------------------
export const PROGRAM_OUTPUT_BYTES_MAX = 1024 * 1024
export const PROGRAM_MS_MAX = 20_000
export const LOGIN_FILE_BYTES_MAX = 64 * 1024
/** A login that runs out sooner is of no use to a run. */
export const LOGIN_LEFT_MS_MIN = 3_600_000

// ---- storage -----------------------------------------------------------------------------------------------------
/** What the bucket's command takes in one file. */
export const UPLOAD_BYTES_MAX = 300 * 1024 * 1024
export const UPLOAD_MS_MAX = 10 * 60_000
export const UPLOAD_KEY_BYTES_MAX = 1_024
/** Uploads that may wait for their turn. */
export const UPLOADS_WAITING_MAX = 1_000
/** The command's own login waits so long for its person. */
export const STORAGE_LOGIN_MS_MAX = 5 * 60_000

// ---- terminals, on the host --------------------------------------------------------------------------------------
export const ATTACH_VIEWS_MAX = 256
export const ATTACH_VIEWS_PER_RUN_MAX = 16
/** A booted sandbox that nobody looks at; time for a page to be loaded again. Less than its worker waits by itself. */
export const ATTACH_GRACE_MS = 20_000
/** What a worker may take to boot a sandbox. */
export const ATTACH_BOOT_MS_MAX = 60_000
/** From the end of a session until everybody who looks at it has been told. */
export const ATTACH_EXIT_MS_MAX = 5_000
/** A new view may take so long to say how large it is; after that it is taken for an ordinary terminal. */
export const ATTACH_SIZE_MS_MAX = 200
/** What is typed into a view while nobody takes it. */
export const ATTACH_TYPED_CHARS_MAX = ATTACH_DATA_CHARS_MAX
/** What is kept of what was handed to the worker's line, should that have been dead already; what one frame holds is more than anybody types until it is found out. */
export const ATTACH_HANDED_OVER_CHARS_MAX = ATTACH_DATA_CHARS_MAX
/** All that `input` may hold, with every character escaped, and what stands around it. */
export const ATTACH_FRAME_BYTES_MAX = 6 * ATTACH_DATA_CHARS_MAX + 1024
/** What may wait for a view that does not read, before it is cut off. */
export const ATTACH_BACKLOG_BYTES_MAX = 4 * 1024 * 1024
/** From one view: in the long run, and at once. A long text may be pasted, a key be held down. */
export const ATTACH_INPUT_BYTES_PER_SECOND = 256 * 1024
export const ATTACH_INPUT_BYTES_AT_ONCE = 2 * 1024 * 1024
export const ATTACH_FRAMES_PER_SECOND = 200
export const ATTACH_FRAMES_AT_ONCE = 2_000
/** A person's sessions, for exports of their usage that come late. */
export const SESSIONS_KEPT_MS = 31 * 24 * 3_600_000

// ---- follow-ups, on the host -------------------------------------------------------------------------------------
/** What people said on a pull request, of all that a job may hold. */
export const JOB_DISCUSSION_BYTES_MAX = 384 * 1024
/** One remark, one thread of them, and the lines of the difference that it is about. */
export const FOLLOW_UP_TEXT_CHARS_MAX = 16 * 1024
export const FOLLOW_UP_THREAD_BYTES_MAX = 64 * 1024
export const FOLLOW_UP_HUNK_CHARS_MAX = 4 * 1024
/** Read longer ago, a pull request is read again before its follow-up goes to a worker. */
export const FOLLOW_UP_FRESH_MS = 5 * 60_000
export const FOLLOW_UP_RETRY_MS_FIRST = 2_000
export const FOLLOW_UP_RETRY_MS_MAX = 5 * 60_000
/** Pull requests that are read at once, and that are held in memory once they are read. */
export const FOLLOW_UP_READS_AT_ONCE = 4
export const FOLLOW_UP_READS_KEPT = 32
