/**
 * The head of a run's page: its title, its state, the one act that fits the state, a menu with the others, its facts.
 */

import { productName } from '../../../client/agent-names.ts'
import { hasEnded, hasUnpublishedWork } from '../../../client/run-events.ts'
import { changedNothing } from '../../../protocol/changed-nothing.ts'
import { formatMoney } from '../../../protocol/format.ts'
import type { Run } from '../../../protocol/run.ts'
import { agentOf } from '../../../protocol/run-agent.ts'
import { shortenMiddle } from '../../../protocol/shorten.ts'
import type { Act } from '../../elements/acts.ts'
import { Button } from '../../elements/button.tsx'
import { Fact } from '../../elements/fact.tsx'
import { Glyph, glyphWord, type StateGlyph } from '../../elements/glyph.tsx'
import { Menu, type MenuEntry } from '../../elements/menu.tsx'
import { Span } from '../../elements/moments.tsx'
import { PageHead } from '../../elements/page-head.tsx'
import { ticketAddress, workerAddress } from '../addresses.ts'
import { openInspector, whyNoActor } from '../open-inspector.ts'
import type { RunActs } from '../runs/run-acts.ts'
import type { RunAct } from '../runs/run-rules.ts'
import { config, workers } from '../state/records.ts'
import { PRIORITY_NAMES } from '../tracker-words.ts'

export type RunView = 'log' | 'diff' | 'terminal'

export interface RunHeadProps {
  readonly run: Run
  readonly acts: RunActs
  readonly view: RunView
  readonly show: (view: RunView) => void
}

const WORDS: Readonly<Record<HeadAct, string>> = {
  diff: 'Open diff',
  attach: 'Open terminal',
  followup: 'Send follow-up…',
  retry: 'Retry…',
  publish: 'Publish now',
  publishAnyway: 'Publish anyway…',
  release: 'Release sandbox',
  discard: 'Discard sandbox…',
  cancel: 'Cancel run…',
}
const DESTRUCTIVE: ReadonlySet<HeadAct> = new Set(['publishAnyway', 'discard', 'cancel'])

export const whyNoDiff = ({ prUrl }: Run): string | undefined =>
  prUrl === undefined ? 'The run has no pull request, so there is no diff to show.' : undefined

export function RunHead({ run, acts, view, show }: RunHeadProps) {
  const { status, ticket, createdAt, queuedAt = createdAt, startedAt = createdAt } = run
  // Every status of a run is a glyph of the same name.
  const glyph = status as StateGlyph
  const actOf = (name: HeadAct): Pick<Act, 'act' | 'unavailable'> =>
    name === 'diff' ? { act: () => show('diff'), unavailable: whyNoDiff(run) } : acts[name]
  const wordsOf = (name: HeadAct): string =>
    name === 'retry' && run.sandbox.unpublished === true ? 'Ask the agent again…' : WORDS[name]
  const isAvailable = (name: HeadAct) => actOf(name).unavailable === undefined
  const { primary, beside, inMenu } = headActs(run, isAvailable, view === 'diff')
  const entryOf = (name: HeadAct): MenuEntry => ({
    text: wordsOf(name),
    ...actOf(name),
    isDestructive: DESTRUCTIVE.has(name),
  })
  const entries = inMenu.filter((name) => !(name === 'diff' && view === 'diff')).map(entryOf)
  return (
    <div class="run-head">
      <PageHead
        title={ticket.title}
        documentName={`${ticket.identifier} ${ticket.title} · ${glyphWord(glyph).toLowerCase()}`}
        beside={
          <span class="run-state">
            <Glyph name={glyph} /> {glyphWord(glyph)}{' '}
            <Span from={status === 'queued' ? queuedAt : startedAt} to={run.finishedAt} />
          </span>
        }
        acts={
          <>
            {view !== 'log' && <Button act={() => show('log')}>Show log</Button>}
            {beside.map((name) => (
              <Button key={name} act={actOf(name).act}>
                {wordsOf(name)}
              </Button>
            ))}
            {primary !== undefined && (
              <Button kind="primary" act={actOf(primary).act}>
                {wordsOf(primary)}
              </Button>
            )}
            <Menu
              label="More acts"
              entries={[
                ...entries.filter(({ isDestructive }) => isDestructive !== true),
                { text: 'Copy link', act: acts['copy-link'].act },
                {
                  text: 'Open inspector',
                  act: () => openInspector(`run/${run.id}`),
                  unavailable: whyNoActor(run),
                },
                ...entries.filter(({ isDestructive }) => isDestructive === true),
              ]}
            />
          </>
        }
      />
      <RunFacts run={run} />
    </div>
  )
}

// ---- facts ---------------------------------------------------------------------------------------------------------

const BRANCH_CHARS_MAX = 40

/** The facts of a run below its title: agent, worker, branch, cost, ticket. */
function RunFacts({ run }: { readonly run: Run }) {
  const { ticket, sandbox, costs, costTotals, agent, pull, result } = run
  const provider = config.value && agentOf(run, config.value)
  const model = costs.at(-1)?.model ?? agent?.model
  const worker = workers.value.find(({ id }) => id === sandbox.workerId)
  const branch = pull?.branch ?? result?.branch
  return (
    <dl class="run-facts">
      {provider !== undefined && (
        <Fact name="Agent">
          {productName(provider)}
          {model !== undefined && `, ${model}`}
        </Fact>
      )}
      {sandbox.workerId !== undefined && (
        <Fact name="Worker">
          <a href={workerAddress(sandbox.workerId)}>
            {worker?.name ?? sandbox.workerName ?? sandbox.workerId}
          </a>
        </Fact>
      )}
      {branch !== undefined && (
        <Fact name="Branch">
          <code title={branch}>{shortenMiddle(branch, BRANCH_CHARS_MAX)}</code>
        </Fact>
      )}
      {changedNothing(run) && <Fact name="Result">Changed nothing</Fact>}
      <Fact name="Cost">{formatMoney(costTotals)}</Fact>
      <Fact name="Ticket">
        <a href={ticketAddress(ticket.id)}>{ticket.identifier}</a>
        {ticket.priority !== 0 && `, ${PRIORITY_NAMES[ticket.priority]}`}
      </Fact>
    </dl>
  )
}

// ---- acts ----------------------------------------------------------------------------------------------------------

type HeadAct = RunAct | 'diff'

/**
 * Chooses which act of a run is the primary one of its page, which stand beside it, and which wait in the menu. A queued
 * run's primary act is the cure of its reason, which stands there.
 */
function headActs(run: Run, isAvailable: (act: HeadAct) => boolean, isDiffShown: boolean) {
  const fitting = fittingActs(run).filter((act) => isAvailable(act) && !(act === 'diff' && isDiffShown))
  const primary = fitting[0]
  const beside = besideActs(run).filter((act) => act !== primary && isAvailable(act))
  const inMenu = menuActs(run, isAvailable).filter((act) => act !== primary && !beside.includes(act))
  return { primary, beside, inMenu }
}

function fittingActs(run: Run): readonly HeadAct[] {
  // A first click publishes nothing that looks like a key.
  if (waitsToPublish(run)) return run.foundKeys === undefined ? ['publish', 'retry'] : ['retry']
  if (run.status === 'failed' || run.status === 'cancelled') return ['retry', 'attach', 'diff']
  if (run.status === 'completed') return ['diff', 'followup', 'attach', 'retry']
  return run.status === 'queued' ? [] : ['diff']
}

const besideActs = (run: Run): readonly HeadAct[] => {
  if (waitsToPublish(run)) return ['retry']
  return hasEnded(run) ? ['attach', 'followup'] : []
}

function menuActs(run: Run, isAvailable: (act: HeadAct) => boolean): readonly HeadAct[] {
  const others: readonly HeadAct[] = hasEnded(run)
    ? ['diff', 'attach', 'followup', 'retry', ...(['release', 'discard'] as const).filter(isAvailable)]
    : ['diff', 'attach', 'cancel']
  return waitsToPublish(run) && run.foundKeys !== undefined ? [...others, 'publishAnyway'] : others
}

const waitsToPublish = (run: Run): boolean =>
  hasUnpublishedWork(run) && (hasEnded(run) || run.status === 'queued')
