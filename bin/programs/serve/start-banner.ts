/**
 * The start banner tells a person at a terminal what a started host is connected to, what is missing, and what to do next.
 *
 * `formatBanner` is pure. `showBanner` waits a moment for the tracker and this machine's worker, so that the banner shows
 * what they are and not that they are starting.
 */

import type { HostApi } from '../../../actors/api/host-api.ts'
import { agentName } from '../../../client/agent-names.ts'
import { connectTrackerCommand } from '../../../core/explain/connect-command.ts'
import type { Clock } from '../../../core/ports/clock.ts'
import { toSingleLine } from '../../../core/safe-text.ts'
import { AGENTS } from '../../../protocol/agents/registry.ts'
import type { ServiceConfig } from '../../../protocol/config.ts'
import type { HelloFrame } from '../../../protocol/dashboard.ts'
import { CODE_HOST_FACTS, isFolder, TRACKER_FACTS } from '../../../protocol/drivers.ts'
import { DASHBOARD_PORT } from '../../../protocol/limits.ts'
import type { HealthResponse, WorkerView } from '../../../protocol/worker.ts'
import { type Colors, createColors } from '../../output/colors.ts'
import { completeCommands } from '../../output/complete-commands.ts'
import { shortenHome } from '../../output/short-names.ts'
import { dataDirElsewhere } from '../../process/data-dir.ts'
import { startedAs } from '../../process/this-program.ts'

export interface BannerFacts {
  readonly url: string
  readonly fleetUrl?: string | undefined
  /** Set when this process serves the dashboard's page. */
  readonly pageUrl?: string | undefined
  /** Set where the native listener is not in use. */
  readonly listener?: string | undefined
  readonly dataDir: string
  /** The words by which this program was started. */
  readonly program?: string
  /** Set where a command in another terminal acts on another one without `--data-dir`. */
  readonly namedDataDir?: string | undefined
  readonly health: Pick<HealthResponse, 'version' | 'hostExecution'>
  /** False for a host that was told to run no worker itself. */
  readonly ownWorker: boolean
  readonly hello: Pick<HelloFrame, 'config' | 'linearStatus' | 'workers' | 'runs'>
}

/** A line of the banner; `missing` says what to do about it. */
interface BannerLine {
  readonly name: string
  readonly text: string
  readonly missing?: string
}

/** How long the banner waits for the tracker's and the worker's first connection. */
const READY_MS_MAX = 3_000

export function formatBanner(facts: BannerFacts, colors: Colors): string {
  const { url, health, program, namedDataDir } = facts
  const name = (text: string) => completeCommands(toSingleLine(text), { program, dataDir: namedDataDir })
  const lines = [tracker, codeHost, agent, worker, fleet, page, listener, dataDir, restored].flatMap((line) =>
    line(facts),
  )
  const printed = lines.map((line) => {
    const { text, missing } = line
    const state = missing === undefined ? name(text) : `${colors.bold(text)}: ${name(missing)}`
    return `  ${line.name.padEnd(10)} ${state}`
  })
  const next = lines.find(({ missing }) => missing !== undefined)?.missing ?? nextStep(facts.hello.config)
  return [
    `switchyard ${health.version} serves ${url}`,
    ...printed,
    `Next: ${name(next)}`,
    mayHaveOwnWorker(facts)
      ? 'Ctrl-C stops; running work of this machine is queued again.'
      : 'Ctrl-C stops; workers go on with their runs.',
    '',
  ].join('\n')
}

const isSet = (value: string | undefined): boolean => (value ?? '') !== ''
const notConnected = (name: string, missing: string): BannerLine => ({ name, text: 'not connected', missing })

function tracker({ hello: { config, linearStatus } }: BannerFacts): BannerLine {
  const name = 'tracker'
  const { driver, pollSeconds } = config.tracker
  const { state, error } = linearStatus
  if (state === 'connected') return { name, text: `${driver}, connected, polls every ${pollSeconds}s` }
  if (state === 'disconnected' && error === undefined && !isFolder(TRACKER_FACTS[driver]))
    return notConnected(name, connectTrackerCommand(driver))
  return { name, text: `${driver}, ${state}${error === undefined ? '' : `: ${error}`}` }
}

function codeHost({ hello: { config } }: BannerFacts): BannerLine {
  const name = 'code host'
  const { driver, token } = config.codehost
  if (isFolder(CODE_HOST_FACTS[driver])) return { name, text: `${driver}, connected` }
  return isSet(token)
    ? { name, text: `${driver}, has a token` }
    : notConnected(name, 'switchyard connect codehost')
}

function agent({ hello: { config, workers } }: BannerFacts): BannerLine {
  const name = 'agent'
  const { provider } = config.agent
  const found = workers.find(({ local }) => local)?.capabilities?.agents?.[provider]
  const command = config.agent.commands[provider]
  const product = [agentName(provider), found?.version].filter(isSet).join(' ')
  if (isSet(command))
    return { name, text: `${agentName(provider)}, as agent.commands.${agentName(provider)} says` }
  if (found?.found === false)
    return {
      name,
      text: `${agentName(provider)} can't be run`,
      missing: found.problem ?? 'install it on this machine',
    }
  if (AGENTS[provider].credentials.some((credential) => isSet(config.agent[credential.field])))
    return { name, text: `${product}, has a credential` }
  return notConnected(name, `switchyard connect ${provider}`)
}

function worker(facts: BannerFacts): BannerLine {
  const name = 'worker'
  const { hello } = facts
  const others = hello.workers.filter(({ local }) => local !== true)
  const online = others.filter(({ connection }) => connection === 'online').length
  const elsewhere = others.length === 0 ? '' : `; ${online} of ${others.length} on other machines online`
  if (mayHaveOwnWorker(facts)) return { name, text: `${describeOwnWorker(hello)}${elsewhere}` }
  if (online > 0) return { name, text: `${online} of ${others.length} online` }
  return { name, text: 'none', missing: 'start one with switchyard worker --host URL --token-file PATH' }
}

type OwnWorkerFacts = Pick<BannerFacts, 'ownWorker' | 'hello' | 'health'>
const mayHaveOwnWorker = ({ ownWorker, hello, health }: OwnWorkerFacts): boolean =>
  ownWorker && hello.config.worker.local && health.hostExecution?.kind === 'local-worker'

function describeOwnWorker({ workers, config }: BannerFacts['hello']): string {
  const local = workers.find((view) => view.local)
  if (local === undefined || !isOnline(local)) return 'this machine, starting'
  const slots = local.capabilities?.maxConcurrency ?? config.sandbox.concurrency
  return `${local.name}, this machine, ${slots} ${slots === 1 ? 'slot' : 'slots'}`
}

const isOnline = ({ connection }: WorkerView): boolean => connection === 'online'

function fleet({ fleetUrl }: BannerFacts): BannerLine {
  return {
    name: 'fleet',
    text: fleetUrl ?? 'off, this machine only: switchyard config set fleet.host ADDRESS',
  }
}

function page({ pageUrl }: BannerFacts): BannerLine[] {
  if (pageUrl === undefined) return [{ name: 'dashboard', text: 'its page opens by: switchyard dashboard' }]
  const port = Number(new URL(pageUrl).port)
  const command = port === DASHBOARD_PORT ? 'switchyard dashboard' : `switchyard dashboard --port ${port}`
  return [{ name: 'dashboard', text: `${pageUrl}; for another link: ${command}` }]
}

function listener({ listener: text }: BannerFacts): BannerLine[] {
  return text === undefined ? [] : [{ name: 'listener', text }]
}

function dataDir({ dataDir }: BannerFacts): BannerLine {
  return { name: 'data', text: dataDir }
}

function restored({ hello: { runs } }: BannerFacts): BannerLine[] {
  const count = (...statuses: string[]) => runs.filter(({ status }) => statuses.includes(status)).length
  const [running, queued] = [count('preparing', 'running', 'finalizing'), count('queued')]
  if (running + queued === 0) return []
  return [{ name: 'restored', text: `${running} running, ${queued} queued` }]
}

function nextStep({ repos, policy, tracker: { driver, eligible } }: ServiceConfig): string {
  if (Object.keys(repos).length === 0) return 'switchyard config set repos.KEY.remote OWNER/NAME'
  if (policy.paused) return 'switchyard resume, and queued runs start'
  const states = eligible.states.join(' or ')
  // A label is the state of an issue.
  if (TRACKER_FACTS[driver].listsRepositoryIssues === true)
    return `${states === '' ? 'open an issue' : `label an issue ${states}`}, and a run starts`
  return `move a ticket to ${states || 'an eligible state'}, and a run starts`
}

// ---- on the terminal -----------------------------------------------------------------------------------------------

interface BannerOptions
  extends Pick<BannerFacts, 'url' | 'fleetUrl' | 'pageUrl' | 'listener' | 'dataDir' | 'ownWorker'> {
  readonly hostApi: HostApi
  readonly clock: Pick<Clock, 'after'>
  readonly out: NodeJS.WriteStream
}

export function showBanner({ hostApi, clock, out, ...known }: BannerOptions): void {
  const { dataDir, ownWorker } = known
  // Runs that are queued while the banner waits are not restored ones.
  const { runs } = hostApi.hello()
  let isShown = false
  const show = () => {
    if (isShown) return
    isShown = true
    stopListening()
    cancel()
    const facts: BannerFacts = {
      ...known,
      dataDir: shortenHome(dataDir),
      program: startedAs().join(' '),
      namedDataDir: dataDirElsewhere(dataDir),
      health: hostApi.health(),
      hello: { ...hostApi.hello(), runs },
    }
    out.write(formatBanner(facts, createColors(out, process.env)))
  }
  const showWhenReady = () => {
    if (isReady(hostApi, ownWorker)) show()
  }
  const cancel = clock.after(READY_MS_MAX, show)
  const stopListening = hostApi.onPush(({ type }) => {
    if (type === 'linear-status' || type === 'workers') showWhenReady()
  })
}

function isReady(hostApi: HostApi, ownWorker: boolean): boolean {
  const hello = hostApi.hello()
  const { linearStatus, workers } = hello
  return (
    linearStatus.state === 'connected' &&
    (!mayHaveOwnWorker({ ownWorker, hello, health: hostApi.health() }) ||
      workers.some((view) => view.local && isOnline(view)))
  )
}
