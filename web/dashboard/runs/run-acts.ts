/** The acts of a run, for buttons, keys and the palette, with the reason for each that the host would refuse now. */
import { hasEnded, hasUnpublishedWork } from '../../../client/run-events.ts'
import type { Run } from '../../../protocol/run.ts'
import type { Act } from '../../elements/acts.ts'
import { askBefore } from '../../elements/dialog.tsx'
import { showOutcome } from '../../elements/toasts.ts'
import { navigate } from '../../router.ts'
import { runAddress } from '../addresses.ts'
import { host } from '../state/host.ts'
import { runs, workers } from '../state/records.ts'
import { usualAgent } from './agent-fields.tsx'
import { askRunOptions } from './run-options.tsx'
import { type RunAct, type RunFacts, whyNot, workedWords } from './run-rules.ts'

export type RunActs = Readonly<Record<RunAct | 'copy-link' | 'copy-command', Act>>

export function factsOf(run: Run): RunFacts {
  const competing = [...runs.value.values()].find(
    ({ id, ticket, status }) => ticket.id === run.ticket.id && id !== run.id && !hasEnded({ status }),
  )
  return { worker: workers.value.find(({ id }) => id === run.sandbox.workerId), competing }
}

export function runActs(run: Run): RunActs {
  const { id, ticket } = run
  const name = ticket.identifier
  const facts = factsOf(run)
  const act = (key: RunAct, title: string, keys: string | undefined, start: () => Promise<void>): Act => ({
    id: `${key} ${id}`,
    title,
    group: `Actions on ${name}`,
    ...(keys === undefined ? {} : { keys }),
    unavailable: whyNot(key, run, facts),
    act: start,
  })
  const copy = (key: string, title: string, keys: string | undefined, text: string): Act => ({
    id: `${key} ${id}`,
    title,
    group: `Actions on ${name}`,
    ...(keys === undefined ? {} : { keys }),
    act: () => navigator.clipboard.writeText(text).then(() => showOutcome('Copied.')),
  })
  return {
    cancel: act('cancel', `Cancel ${name}`, 'Shift c', () => cancel(run)),
    publish: act('publish', `Publish the work of ${name} now`, undefined, async () =>
      (await unpublishedActs()).publishNow(run),
    ),
    publishAnyway: act('publishAnyway', `Publish the work of ${name} anyway`, undefined, async () =>
      (await unpublishedActs()).publishAnyway(run),
    ),
    retry: act(
      'retry',
      hasUnpublishedWork(run) ? `Ask the agent of ${name} again` : `Retry ${name}`,
      'r',
      async () => (hasUnpublishedWork(run) ? (await unpublishedActs()).askAgain(run) : retry(run)),
    ),
    followup: act('followup', `Send a follow-up to ${name}`, 'u', () => followUp(run)),
    attach: act('attach', `Open the terminal of ${name}`, 'a', async () =>
      navigate(`${runAddress(id)}?terminal=1`),
    ),
    release: act('release', `Release the sandbox of ${name}`, undefined, async () => {
      await host.releaseRun({ id })
    }),
    discard: act('discard', `Discard the sandbox of ${name}`, undefined, () => discard(run)),
    'copy-link': copy('copy-link', `Copy the link to ${name}`, 'y', location.origin + runAddress(id)),
    'copy-command': copy(
      'copy-command',
      `Copy the command for the log of ${name}`,
      undefined,
      `switchyard logs -f ${id}`,
    ),
  }
}

/** Few runs have work that is not published. */
const unpublishedActs = () => import('./unpublished-acts.ts')

async function cancel(run: Run): Promise<void> {
  const { id, ticket } = run
  const worked = workedWords(run, Date.now())
  const isAgreed = await askBefore({
    title: `Cancel ${ticket.identifier}?`,
    loses: `The run ends now.${worked === undefined ? '' : ` ${worked}`} What the agent has not pushed stays in its sandbox until retention ends.`,
    keep: 'Keep it running',
    act: 'Cancel run',
  })
  if (isAgreed) await host.cancelRun({ id })
}

const retry = ({ id, ticket, agent }: Run): Promise<void> =>
  askRunOptions({
    title: `Retry ${ticket.identifier}`,
    lead: ticket.title,
    usual: usualAgent(ticket.repo, agent),
    act: 'Retry run',
    busyWord: 'Retrying',
    hint: 'Words for the agent; empty keeps those of the run.',
    send: async (body) => {
      await host.retryRun({ id, body })
    },
  })

const followUp = ({ id, ticket, agent }: Run): Promise<void> =>
  askRunOptions({
    title: `Send a follow-up to ${ticket.identifier}`,
    lead: 'The agent rebases the pull request, solves conflicts and answers its reviews.',
    usual: usualAgent(ticket.repo, agent),
    act: 'Send follow-up',
    busyWord: 'Sending',
    hint: 'What the agent shall do besides.',
    send: async (body) => {
      await host.followUpRun({ id, body })
    },
  })

async function discard({ id, ticket }: Run): Promise<void> {
  const isAgreed = await askBefore({
    title: `Discard the sandbox of ${ticket.identifier}?`,
    loses:
      'Its files are deleted, and its session cannot be opened again. The log, the costs and the pull request stay.',
    keep: 'Keep sandbox',
    act: 'Discard sandbox',
  })
  if (isAgreed) await host.discardRun({ id })
}
