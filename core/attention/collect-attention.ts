/**
 * Makes the list of what needs a person from the present facts, so an item vanishes with its cause.
 *
 * An item's id depends on its subject only: the same trouble keeps its id. Each kind has a bounded share of the list,
 * the newest first, so that many failed runs do not hide a refused credential. Before them are those that wait for a
 * person's word: to acknowledge one may end many others.
 */
import {
  ATTENTION_KINDS,
  type AttentionItem,
  type AttentionKind,
  type AttentionPull,
} from '../../protocol/attention.ts'
import { bundleAmong, fetchBundleCommand } from '../../protocol/kept-bundle.ts'
import {
  ATTENTION_ID_CHARS_MAX,
  ATTENTION_ITEM_RUNS_MAX,
  ATTENTION_ITEMS_PER_KIND_MAX,
} from '../../protocol/limits.ts'
import { quoteWord } from '../../protocol/quote-word.ts'
import type { Run } from '../../protocol/run.ts'
import { DAMAGE_CURE, type Damage, lostRunsOf } from '../damage.ts'
import { connectCommandFor, connectTrackerCommand } from '../explain/connect-command.ts'
import { foundKeysText, publishAnywayCommand } from '../run/found-keys.ts'
import { runInCommand, showPullCommand } from '../run/name-in-commands.ts'
import { truncate } from '../safe-text.ts'
import { formatNames, isSameName } from '../tickets/names.ts'
import { bounded, codeHostItems, itemOfUnmapped, itemOfWork, namesOf, UNMAPPED } from './code-host-items.ts'
import type { AttentionFacts, AwayWorker, FullWorker, HeldWork, KnownSince } from './facts.ts'

export interface CollectedAttention {
  readonly items: AttentionItem[]
  /** How many older items were left out; absent when there are none. */
  readonly more?: number
}

export function collectAttention(facts: AttentionFacts): CollectedAttention {
  const all = [
    ...facts.endedRuns.flatMap((run) => itemOfRun(run, facts) ?? []),
    ...loginItems(facts),
    ...trackerItems(facts),
    ...codeHostItems(facts),
    ...facts.unmapped.map(itemOfUnmapped),
    ...facts.unpublished.map(itemOfWork),
    ...facts.withKeys.map(itemOfKeys),
    ...diskItems(facts),
    ...facts.fullWorkers.map(itemOfFullWorker),
    ...facts.awayWorkers.flatMap((worker) => itemOfWorker(worker, facts) ?? []),
    ...facts.damage.map(itemOfDamage),
  ]
  const items = ATTENTION_KINDS.flatMap((kind) =>
    all
      .filter((item) => item.kind === kind)
      .sort(
        (a, b) =>
          waitsForWord(b) - waitsForWord(a) || compareText(b.since, a.since) || compareText(a.id, b.id),
      )
      .slice(0, ATTENTION_ITEMS_PER_KIND_MAX),
  )
  return all.length === items.length ? { items } : { items, more: all.length - items.length }
}

const WORKER_DISK = 'disk:'
const DEGRADATIONS: readonly (readonly [AttentionKind, string])[] = [
  ['disk', 'the disk of the host is full'],
  ['damage', 'stored records are damaged'],
  ['codehost', 'a repository of the code host can’t be read or takes no work'],
  ['tracker', 'the tracker can’t be read'],
]

/** Sentences without names and paths, for callers who have shown no token. */
export const degradationsOf = (items: readonly AttentionItem[]): string[] =>
  DEGRADATIONS.flatMap(([kind, sentence]) => (items.some((item) => isOfHost(item, kind)) ? [sentence] : []))

/** The disk of a worker is none of the host's, and a missing mapping says nothing about the code host. */
const isOfHost = ({ id, kind }: AttentionItem, wanted: AttentionKind): boolean =>
  kind === wanted && !id.startsWith(WORKER_DISK) && !id.startsWith(UNMAPPED)

/** Whether an ended run may need a person now or later. */
export function mayNeedAttention({ status, prState }: Run): boolean {
  if (status === 'failed') return prState !== 'merged'
  return status === 'completed' && (prState === 'open' || prState === 'draft')
}

/** The next instant, in wall milliseconds, at which the list changes although no fact does. */
export function nextAttentionChange(facts: AttentionFacts): number | undefined {
  const instants = [
    ...[...facts.limits.values()].map(({ resetsAt = '' }) => Date.parse(resetsAt)),
    ...facts.endedRuns.map(({ sandbox }) => Date.parse(sandbox.retainedUntil ?? '')),
    ...facts.awayWorkers.map((worker) => awayFrom(worker, facts)),
  ].filter((instant) => instant > facts.now)
  return instants.length === 0 ? undefined : Math.min(...instants)
}

const compareText = (a: string, b: string): number => (a < b ? -1 : a > b ? 1 : 0)
const waitsForWord = ({ mayAcknowledge }: AttentionItem): number => (mayAcknowledge === true ? 1 : 0)

// ---- runs --------------------------------------------------------------------------------------------------------

function itemOfRun(run: Run, facts: AttentionFacts): AttentionItem | undefined {
  const ticketId = run.ticket.id
  if (!mayNeedAttention(run) || facts.activeTickets.has(ticketId)) return undefined
  if (run.status === 'failed' || run.error !== undefined)
    return facts.closedTickets.has(ticketId) ? undefined : itemOfFailure(run, facts)
  const pull = pullOf(run, facts)
  if (pull === undefined) return undefined
  const name = `${pull.repo ?? pull.remote}#${pull.number}`
  const conflictSince = facts.conflicts.get(pull.url)
  if (conflictSince !== undefined)
    return {
      ...commonFields('conflict', run, `${name} conflicts with its base branch`),
      cure: `switchyard followup ${runInCommand(run)}`,
      pull,
      since: conflictSince,
    }
  if (run.prState !== 'open') return undefined
  const verdict = facts.verdicts.get(pull.url)
  return {
    ...commonFields('review', run, `${verdict ?? 'review asked'} on ${name}`),
    cure: verdict === undefined ? showPullCommand(run) : `switchyard followup ${runInCommand(run)}`,
    pull,
  }
}

function itemOfFailure(run: Run, facts: AttentionFacts): AttentionItem {
  const pull = pullOf(run, facts)
  const limit = facts.limits.get(run.id)
  const { resetsAt } = limit ?? {}
  const isLimited = limit !== undefined && (resetsAt === undefined || Date.parse(resetsAt) > facts.now)
  const fields = isLimited
    ? {
        ...commonFields(
          'limit',
          run,
          `usage limit of ${limit.provider}${resetsAt === undefined ? '' : ` until ${resetsAt}`}`,
        ),
        cure: `switchyard retry ${runInCommand(run)}`,
      }
    : {
        ...commonFields(
          'failed',
          run,
          run.status === 'failed' ? `failed: ${run.error ?? ''}` : (run.error ?? ''),
        ),
        cure: bundleCure(run, facts.now) ?? `switchyard logs ${runInCommand(run)}`,
      }
  return pull === undefined ? fields : { ...fields, pull }
}

/** The sandbox with the work is gone. While it is kept, a retry publishes the work. */
function bundleCure(run: Run, now: number): string | undefined {
  const { sandbox, result } = run
  const bundle = bundleAmong(result?.artifacts)
  const isInSandbox = sandbox.unpublished === true && Date.parse(sandbox.retainedUntil ?? '') > now
  return bundle === undefined || isInSandbox ? undefined : fetchBundleCommand(run, bundle)
}

/** A failure keeps its id when its usage limit is over. */
function commonFields(
  kind: 'failed' | 'limit' | 'review' | 'conflict',
  run: Run,
  message: string,
): AttentionItem {
  return {
    id: `${kind === 'limit' ? 'failed' : kind}:${run.id}`,
    kind,
    message: bounded(message),
    runId: run.id,
    ticketId: run.ticket.id,
    since: run.finishedAt ?? run.createdAt,
  }
}

/** A pull request that the code host has not confirmed may belong to somebody else. */
function pullOf({ prUrl, pull }: Run, { config }: AttentionFacts): AttentionPull | undefined {
  if (prUrl === undefined || pull === undefined || !pull.confirmed) return undefined
  const { remote, number } = pull
  const repo = Object.entries(config.repos).find(([, mapping]) => isSameName(mapping.remote, remote))?.[0]
  return { ...(repo === undefined ? {} : { repo }), remote, number, url: prUrl }
}

// ---- credentials and the tracker ---------------------------------------------------------------------------------

function loginItems({ credentials, tracker, trackerSince, config }: AttentionFacts): AttentionItem[] {
  const items = new Map<string, AttentionItem>()
  for (const { reason, since } of credentials) {
    const [subject = reason] = reason.split(': ')
    const id = `login:${subject}`
    const known = items.get(id)
    if (known !== undefined && known.since <= since) continue
    items.set(id, { id, kind: 'login', message: bounded(subject), cure: connectCommandFor(reason), since })
  }
  if (tracker.state !== 'auth-error' || trackerSince === undefined) return [...items.values()]
  const { driver } = config.tracker
  const why = tracker.error === undefined ? '' : `: ${tracker.error}`
  return [
    ...items.values(),
    {
      id: 'login:tracker',
      kind: 'login',
      message: bounded(`${driver} refuses the credential${why}`),
      cure: connectTrackerCommand(driver),
      since: trackerSince,
    },
  ]
}

function trackerItems({ tracker, trackerSince, config }: AttentionFacts): AttentionItem[] {
  const { state, error } = tracker
  const isInTrouble = state === 'refresh-failing' || (state === 'connected' && error !== undefined)
  if (!isInTrouble || trackerSince === undefined) return []
  const message = bounded(`${config.tracker.driver}: ${error ?? 'its token cannot be refreshed'}`)
  return [{ id: 'tracker', kind: 'tracker', message, since: trackerSince }]
}

// ---- damage ------------------------------------------------------------------------------------------------------

/** The same damage keeps the id of its item. */
export const itemIdOf = ({ id }: Damage): string => truncate(`damage:${id}`, ATTENTION_ID_CHARS_MAX)

function itemOfDamage({ damage, since }: KnownSince): AttentionItem {
  const { message, cure = DAMAGE_CURE, runId, lost } = damage
  const runs = lostRunsOf(damage)
  return {
    id: itemIdOf(damage),
    kind: 'damage',
    message: bounded(runs.length === 0 ? message : `${message}; lost: ${formatNames(runs)}`),
    cure,
    ...(runId === undefined ? {} : { runId }),
    ...(runs.length === 0 ? {} : { runs: runs.slice(0, ATTENTION_ITEM_RUNS_MAX) }),
    ...(lost === undefined ? {} : { mayAcknowledge: true }),
    since,
  }
}

// ---- keys and disks -----------------------------------------------------------------------------------------------

/** Each run has its own item: what one of them holds says nothing about the others. */
function itemOfKeys(run: Run): AttentionItem {
  return {
    id: `secret:${run.id}`,
    kind: 'secret',
    message: bounded(`done and not published: ${foundKeysText(run.foundKeys ?? [])}`),
    cure: publishAnywayCommand(run),
    runId: run.id,
    ticketId: run.ticket.id,
    since: run.queuedAt ?? run.createdAt,
  }
}

function diskItems({ disk }: AttentionFacts): AttentionItem[] {
  if (disk === undefined) return []
  const message = bounded(`${disk.reason}; until then no run is started, and reports of runs wait`)
  return [{ id: 'disk', kind: 'disk', message, since: disk.since }]
}

function itemOfFullWorker({ id, name, reason, since }: FullWorker): AttentionItem {
  return {
    id: `${WORKER_DISK}${id}`,
    kind: 'disk',
    message: bounded(`the disk of worker ${name} is full: ${reason}; runs wait until it has room`),
    cure: `switchyard workers enable ${quoteWord(name)}`,
    since,
  }
}

// ---- workers -----------------------------------------------------------------------------------------------------

/**
 * A connection that is replaced at once is no absence, nor is the time in which the host was down. Finished work that
 * only the worker has is named as soon as the worker is gone.
 */
function awayFrom(worker: AwayWorker, facts: AttentionFacts): number {
  const { lastSeenAt, goneSince } = worker
  const { config, startedAt } = facts
  if (goneSince !== undefined && heldWork(worker, facts).length > 0) return Date.parse(goneSince)
  return Math.max(Date.parse(lastSeenAt), startedAt) + config.fleet.heartbeatTimeoutSeconds * 1000
}

const heldWork = (worker: AwayWorker, facts: AttentionFacts): HeldWork[] => [
  ...worker.unpublished,
  ...facts.endedRuns
    .filter((run) => run.sandbox.unpublished === true && isRetainedOn(run, worker, facts))
    .map((run) => ({ run, artifacts: run.result?.artifacts ?? [] })),
]

function itemOfWorker(worker: AwayWorker, facts: AttentionFacts): AttentionItem | undefined {
  if (awayFrom(worker, facts) > facts.now) return undefined
  const retained = facts.endedRuns.filter((run) => isRetainedOn(run, worker, facts))
  const held = heldWork(worker, facts)
  const runs = [...worker.neededBy, ...retained, ...held.map(({ run }) => run)]
  if (runs.length === 0) return undefined
  return {
    id: `worker-away:${worker.id}`,
    kind: 'worker-away',
    message: bounded(`${worker.name} is not connected and holds ${namesOf(runs)}${wordsOfWork(held)}`),
    cure: cureOfWork(held) ?? `switchyard workers show ${quoteWord(worker.name)}`,
    since: worker.lastSeenAt,
  }
}

/** Another machine gets at the commits of the first run that has a bundle. */
function cureOfWork(held: readonly HeldWork[]): string | undefined {
  for (const { run, artifacts } of held) {
    const bundle = bundleAmong(artifacts)
    if (bundle !== undefined) return fetchBundleCommand(run, bundle)
  }
  return undefined
}

function wordsOfWork(held: readonly HeldWork[]): string {
  if (held.length === 0) return ''
  const names = namesOf(held.map(({ run }) => run))
  return `; finished work of ${names} is not published until that worker is started again`
}

function isRetainedOn({ sandbox, ...run }: Run, { id }: AwayWorker, { now }: AttentionFacts): boolean {
  return (
    mayNeedAttention({ sandbox, ...run }) &&
    sandbox.id !== undefined &&
    sandbox.workerId === id &&
    Date.parse(sandbox.retainedUntil ?? '') > now
  )
}
