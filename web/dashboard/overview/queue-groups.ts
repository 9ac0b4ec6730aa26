/**
 * Queued runs grouped by what they wait for: one reason is said once, with its explanation and its cure.
 *
 * The reasons are the host's, word for word; what differs between runs of one group is taken out of the group's name.
 */
import { productName, withAgentNames } from '../../../client/agent-names.ts'
import type { Run } from '../../../protocol/run.ts'
import { capitalized } from '../../text/sentences.ts'
import { formatInstant } from '../../text/times.ts'
import { settingAddress } from '../addresses.ts'

export interface QueueCure {
  readonly text: string
  /** An address, or an act that the page knows. */
  readonly to: string
}

export interface QueueGroup {
  readonly fact: string
  readonly explanation?: string
  /** The instant at which the reason ends by itself. */
  readonly until?: string
  readonly cure?: QueueCure
  readonly runs: readonly Run[]
}

export type GroupHead = Omit<QueueGroup, 'runs'>

const INSTANT = /\b(\d{4}-\d\d-\d\dT[\d:.]+Z)\b/
const CONNECT: QueueCure = { text: 'Connect', to: '/connect' }
export const PAIR: QueueCure = { text: 'Pair a worker', to: '/fleet#pair' }

const RULES: readonly (readonly [pattern: RegExp, head: (found: readonly string[]) => GroupHead])[] = [
  [
    /^paused$/,
    () => ({
      fact: 'Dispatching is paused',
      explanation: 'Running work goes on.',
      cure: { text: 'Resume', to: 'resume' },
    }),
  ],
  [
    /^fleet at capacity$/,
    () => ({
      fact: 'Fleet at capacity',
      explanation: 'The next free slot takes the first of them.',
      cure: PAIR,
    }),
  ],
  [/^no workers connected$/, () => ({ fact: 'No workers connected', cure: PAIR })],
  [
    /^(all workers(?: that could take it)? are draining)$/,
    ([words = '']) => ({ fact: capitalized(words), cure: { text: 'Go to the fleet', to: '/fleet' } }),
  ],
  [
    /^(all workers(?: that could take it)? are on hold)(?:: .*)?$/,
    ([words = '']) => ({
      fact: capitalized(words),
      explanation: 'They come back by themselves.',
      cure: { text: 'Go to the fleet', to: '/fleet' },
    }),
  ],
  [
    /^(all workers(?: that could take it)? refused a dispatch a moment ago)/,
    ([words = '']) => ({
      fact: capitalized(words),
      explanation: 'They are asked again in a moment.',
    }),
  ],
  [/^waiting for the tracker, /, () => ({ fact: 'Waiting for the tracker' })],
  [/^waiting for /, () => ({ fact: 'Blocked by another ticket' })],
  [
    /^the disk of worker (.*) is full \(/,
    ([name = '']) => ({
      fact: `The disk of ${name} is full`,
      cure: { text: 'Go to the fleet', to: '/fleet' },
    }),
  ],
  [
    /^\S+ was edited by (\S+) after it was labelled: /,
    ([by = 'somebody']) => ({
      fact: `${by} edited the ticket after it was labelled`,
      explanation: 'Read it, then set the label again or start it.',
    }),
  ],
  [
    /^not published until a person decides: (.*)$/s,
    ([why = '']) => ({ fact: 'The work is done, and waits for your word', explanation: hostWords(why) }),
  ],
  [
    /^publishing again at \S+: (.*)$/s,
    ([why = '']) => ({ fact: 'The work is done, and waits to be published', explanation: hostWords(why) }),
  ],
  [/^interrupted/, () => ({ fact: 'Interrupted, and queued again' })],
  [
    /^credential of (\S+) is (missing|refused)/,
    ([provider = '', state = '']) => ({
      fact: `The credential of ${productName(provider)} is ${state}`,
      cure: CONNECT,
    }),
  ],
  [
    /^no worker has ([^:\s]+)/,
    ([agent = '']) => ({
      fact: `No worker has ${productName(agent)}`,
      cure: { text: 'Go to the fleet', to: '/fleet' },
    }),
  ],
  [
    /^no repository is for /,
    () => ({
      fact: 'No repository is for the ticket',
      cure: { text: 'Map a repository', to: settingAddress('repos') },
    }),
  ],
  [
    /^\d+ repositories fit /,
    () => ({
      fact: 'Several repositories fit the ticket',
      explanation: 'Name one of them in it, or give each a label.',
      cure: { text: 'Tell them apart', to: settingAddress('repos') },
    }),
  ],
  [
    /^(\S+) can't be read(?:: (.+))?$/s,
    ([remote = '', why]) => ({
      fact: `${remote} can't be read`,
      ...(why === undefined ? {} : { explanation: why }),
      cure: { text: 'Go to the settings', to: settingAddress('repos') },
    }),
  ],
  [
    /^worker (.+) holds the sandbox(, and its disk is full)?/,
    ([name = '', fullDisk = '']) => ({
      fact: `Worker ${name} holds the sandbox${fullDisk}`,
      explanation: 'The work is in there.',
      cure: { text: 'Go to the fleet', to: '/fleet' },
    }),
  ],
]

export const groupHead = ({ queueReason }: Run): GroupHead =>
  queueReason === undefined ? { fact: 'Next to be dispatched' } : headOf(queueReason)

function headOf(reason: string): GroupHead {
  for (const [pattern, head] of RULES) {
    const found = pattern.exec(reason)
    if (found === null) continue
    const until = INSTANT.exec(reason)?.[1]
    return { ...head(found.slice(1)), ...(until === undefined ? {} : { until }) }
  }
  const [fact = '', ...rest] = reason.split(': ')
  const explanation = rest.join(': ')
  return { fact: hostWords(fact), ...(explanation === '' ? {} : { explanation }) }
}

/** The part of a reason that a group leaves out, where it is worth a column of its own. */
export const ownReason = (run: Run): string | undefined =>
  /^(waiting for|interrupted|no repository|\d+ repositories)/.test(run.queueReason ?? '')
    ? run.queueReason
    : undefined

/** Why a queued run waits, in the words of its group. */
export function waitWords(run: Run): string {
  const reason = ownReason(run)
  return reason === undefined ? groupHead(run).fact : hostWords(reason)
}

/** Larger groups first; in a group by priority, then by age. */
export function queueGroups(runs: Iterable<Run>): QueueGroup[] {
  const groups = new Map<string, { readonly head: GroupHead; readonly runs: Run[] }>()
  for (const run of runs) {
    if (run.status !== 'queued') continue
    const head = groupHead(run)
    const key = `${head.fact} ${head.until ?? ''}`
    const group = groups.get(key)
    if (group === undefined) groups.set(key, { head, runs: [run] })
    else group.runs.push(run)
  }
  return [...groups.values()]
    .map(({ head, runs: members }) => ({ ...head, runs: members.sort(byUrgency) }))
    .sort((a, b) => b.runs.length - a.runs.length || (a.fact < b.fact ? -1 : 1))
}

/** A ticket without a priority comes last. */
const urgencyOf = ({ ticket }: Run): number => (ticket.priority === 0 ? 5 : ticket.priority)
const queuedSince = (run: Run): string => run.queuedAt ?? run.createdAt
const byUrgency = (a: Run, b: Run): number =>
  urgencyOf(a) - urgencyOf(b) || (queuedSince(a) < queuedSince(b) ? -1 : 1)

/** `acme/web`, whose letters are a name's. */
const BEGINS_WITH_REPOSITORY = /^\S+\/\S/
const INSTANTS = new RegExp(INSTANT, 'g')

/** The host's words as a page says them: agents by their names, instants by the clock of the reader. */
export function hostWords(text: string): string {
  const words = withAgentNames(text, productName).replace(INSTANTS, (instant) =>
    formatInstant(instant, Date.now()),
  )
  return BEGINS_WITH_REPOSITORY.test(words) ? words : capitalized(words)
}
