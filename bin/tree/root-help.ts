/** The first page of help: every command by what people do with it, in one screen. A test compares it with the tree. */
export const ROOT_HELP = `Usage: switchyard COMMAND [ARGUMENTS] [OPTIONS]
Turn tickets into pull requests with coding agents on machines of your own.
Every day
  status                    Show what runs, what waits and what needs you
  start TICKET | "WORDS"    Queue a ticket, or a new one made from words
  logs RUN                  Print a run's log from its first line; -f follows
  explain TICKET|RUN        Say why it waits or failed, gate by gate
  top, dashboard            Watch it all on a live board; in a browser
  inspect                   Watch the actors on their live state charts
  attach RUN                Open the session of a finished run
  pause, resume             Stop dispatching runs; go on
Nouns
  tickets, runs, pulls      What rolls in, what is worked on, what comes out
  cancel, retry, followup, release, discard RUN
                            As in runs
  workers                   The machines: list, add, drain, revoke
  memories, costs           What runs have learnt; what they have cost
Set up
  init                      Ask, then write a first configuration
  connect PROVIDER          Connect tracker, codehost, storage or an agent
  config, paths             Read and change settings; say where files are
  doctor, check-data        Check this machine and name each cure; the data
  audit                     Show who did what from which source
  service, completion       Start at login; complete words and ids
  deploy                    Print manifests for workers in Kubernetes
  api METHOD PATH           Send one request to the host
  version, help TOPIC       Say which version; explain exit, environment, json
Programs
  serve, worker, supervise  The host; a worker; a worker's supervisor
  quickstart, oauth-helper  The example; the public OAuth helper
  mcp                       Serve tools to an agent in an editor
Options  --json, -o table|id|json, --data-dir PATH, --color auto|always|never,
         --yes, --quiet, --debug, --help, --version; switchyard NOUN --help
`
