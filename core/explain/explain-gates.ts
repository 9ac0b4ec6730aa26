/**
 * Judges every gate between a ticket and a worker, from the decisions that the service itself makes.
 *
 * The gate at which the scheduler holds a run never passes, so the gates agree with the run's queue reason. A run
 * whose gates all pass is dispatched next.
 */
import { GATE_IDS, type Gate, type GateId } from '../../protocol/explain.ts'
import { formatDuration, formatSeconds } from '../../protocol/format.ts'
import { quoteWord } from '../../protocol/quote-word.ts'
import type { RunStatus, Ticket } from '../../protocol/run.ts'
import { printable } from '../../protocol/schema-errors.ts'
import { PAUSED_REASON, placeRun } from '../fleet/placement.ts'
import { ticketInCommand } from '../run/name-in-commands.ts'
import { isTerminal } from '../run/run-transitions.ts'
import { waitingReason } from '../tickets/blockers.ts'
import { type EligibilityObstacle, eligibilityObstacle } from '../tickets/eligibility.ts'
import { formatNames } from '../tickets/names.ts'
import { repoRefusalReason } from '../tickets/repo.ts'
import { connectTrackerCommand } from './connect-command.ts'
import { type ExplainFacts, pass, stop, wait } from './facts.ts'
import {
  judgeCapacity,
  judgeCredential,
  judgeSandbox,
  judgeSentTo,
  judgeWorkers,
  sharedReasonAt,
} from './worker-gates.ts'

const judges: Readonly<Record<GateId, (facts: ExplainFacts) => Gate>> = {
  tracker: judgeTracker,
  'last poll': judgeLastPoll,
  eligible: judgeEligibility,
  repository: judgeRepository,
  blockers: judgeBlockers,
  duplicate: judgeDuplicate,
  policy: judgePolicy,
  workers: judgeWorkers,
  capacity: judgeCapacity,
  credential: judgeCredential,
  sandbox: judgeSandbox,
}

export function explainGates(facts: ExplainFacts): Gate[] {
  const { waitsFor, sentTo } = facts.run ?? {}
  return GATE_IDS.map((id) => {
    const gate = judges[id](facts)
    // The run is behind every gate, even behind one that is closed by now.
    if (sentTo !== undefined && (gate.status !== 'pass' || WORKER_GATES.has(id)))
      return id === 'workers' && !sentTo.online
        ? judgeSentTo(sentTo, facts)
        : pass(id, `the run was sent to ${sentTo.name}`)
    return gate.status === 'pass' && waitsFor?.gate === id ? wait(id, waitsFor.reason, waitsFor.cure) : gate
  })
}

const WORKER_GATES: ReadonlySet<GateId> = new Set(['workers', 'capacity', 'credential', 'sandbox'])

/**
 * Returns why the ticket has no run yet. The first gate that is not open speaks for all; undefined when all of them are
 * open.
 */
export function missingRunReason(facts: ExplainFacts, gates: readonly Gate[]): string | undefined {
  const gate = gates.find(({ status }) => status !== 'pass')
  switch (gate?.id) {
    case 'repository':
      return repoReason(facts) ?? gate.message
    case 'blockers':
      return waitingReason(
        facts.blockers.map(({ ticket }) => ticket.identifier),
        facts.cycle,
      )
    case 'policy':
      return facts.serviceProblem ?? PAUSED_REASON
    case 'workers':
    case 'capacity':
    case 'credential':
    case 'sandbox': {
      const decision = placeRun(facts.request, facts.workers, facts.now)
      return decision.is === 'waits' ? decision.reason : gate.message
    }
    default:
      return gate?.message
  }
}

function repoReason({ repo, ticket }: ExplainFacts): string | undefined {
  if (repo.is === 'chosen') return undefined
  return repo.is === 'refused' ? repo.reason : repoRefusalReason(ticket, repo)
}

// ---- the tracker and its last poll -------------------------------------------------------------------------------

/** Runs that are queued already go on without the tracker and its polls. */
function judgeTracker({ config, tracker }: ExplainFacts): Gate {
  const { driver } = config.tracker
  const because = tracker.error === undefined ? '' : `: ${tracker.error}`
  switch (tracker.state) {
    case 'connected':
      return pass('tracker', `${driver}, connected`)
    case 'refresh-failing':
      return wait('tracker', `${driver}, its token is being refreshed${because}`)
    case 'auth-error':
      return stop('tracker', `${driver} refuses the credential${because}`, connectTrackerCommand(driver))
    case 'disconnected':
      return stop('tracker', `${driver}, not connected${because}`, connectTrackerCommand(driver))
  }
}

/** A poll is late when two more should have followed it. */
const POLLS_MISSED_MIN = 2

function judgeLastPoll({ config, tracker, now }: ExplainFacts): Gate {
  const { lastPollAt, error } = tracker
  const everyMs = config.tracker.pollSeconds * 1000
  const every = `every ${formatDuration(everyMs)}`
  const problem = error === undefined ? '' : `; ${error}`
  if (lastPollAt === undefined) return wait('last poll', `none yet, ${every}${problem}`)
  const ageMs = Math.max(0, now - Date.parse(lastPollAt))
  const message = `${formatSeconds(Math.round(ageMs / 1000))} ago, ${every}${problem}`
  return ageMs > POLLS_MISSED_MIN * everyMs ? wait('last poll', message) : pass('last poll', message)
}

// ---- eligible ----------------------------------------------------------------------------------------------------

/** A run that is queued already needs no eligible ticket: a person may have started it. */
function judgeEligibility(facts: ExplainFacts): Gate {
  const { run, tracked, ticket, config } = facts
  if (run?.isFollowUp === true) return pass('eligible', 'a follow-up needs no eligible ticket')
  if (run?.publishes === true) return pass('eligible', 'finished work needs no eligible ticket')
  if (run?.waitsFor?.gate === 'eligible') return stop('eligible', run.waitsFor.reason, run.waitsFor.cure)
  const problem = eligibilityProblem(facts)
  if (problem === undefined) return pass('eligible', `state ${printable(ticket.state)}`)
  if (run !== undefined) return pass('eligible', `${problem}; its run is queued already`)
  if (tracked === undefined) return stop('eligible', `${problem} in ${config.tracker.driver}`)
  return stop('eligible', problem, `switchyard start ${ticketInCommand(ticket)}`)
}

function eligibilityProblem({ tracked, config, ticket }: ExplainFacts): string | undefined {
  if (tracked === undefined) return `${ticket.identifier} is not among the tickets that were listed last`
  const rules = config.tracker.eligible
  const obstacle = eligibilityObstacle(tracked, rules)
  if (obstacle === undefined) return undefined
  if (obstacle === 'closed') return `closed, in state ${printable(ticket.state)}`
  const list = `tracker.eligible.${obstacle} (${formatNames(rules[obstacle])})`
  return `${describeValue(obstacle, ticket)} in ${list}`
}

function describeValue(list: Exclude<EligibilityObstacle, 'closed'>, ticket: Ticket): string {
  const { state, labels, project, assignee } = ticket
  switch (list) {
    case 'states':
      return `state ${printable(state)} is not`
    case 'labels':
      return labels.length === 0
        ? 'it has no label that is'
        : `none of its labels (${formatNames(labels)}) is`
    case 'projects':
      return project === undefined ? 'it has no project that is' : `project "${printable(project)}" is not`
    case 'assignees':
      return assignee === undefined ? 'it has no assignee who is' : `assignee "${printable(assignee)}" is not`
  }
}

// ---- repository --------------------------------------------------------------------------------------------------

function judgeRepository(facts: ExplainFacts): Gate {
  const { repo, ticket } = facts
  switch (repo.is) {
    case 'chosen':
      return judgeChosen(facts, repo.choice)
    case 'refused':
      return stop('repository', repo.reason)
    case 'none configured':
      return stop('repository', 'repos names none', mapCommand('web', 'remote', 'OWNER/NAME'))
    case 'unknown key': {
      const key = printable(repo.key)
      return stop('repository', `"${key}" is not a key under repos`, mapCommand(key, 'remote', 'OWNER/NAME'))
    }
    case 'ambiguous': {
      const keys = formatNames(repo.choices.map(({ key }) => key))
      const message = `${repo.choices.length} repositories fit: ${keys}`
      return stop(
        'repository',
        message,
        'name one of them in the ticket, or tell them apart by repos.*.label',
      )
    }
    case 'unmatched':
      return unmatched(ticket)
  }
}

type Choice = Extract<ExplainFacts['repo'], { is: 'chosen' }>['choice']

function judgeChosen(facts: ExplainFacts, { key, mapping }: Choice): Gate {
  const unreadable = sharedReasonAt('repository', facts)
  return unreadable === undefined
    ? pass('repository', `${key} (${mapping.remote})`)
    : stop('repository', unreadable, unreadableCure(unreadable, key, facts))
}

/** The reason ends with the cure in words: a setting that it tells to correct, or something outside of the settings. */
function unreadableCure(reason: string, key: string, { run, ticket }: ExplainFacts): string | undefined {
  if (/\bset defaultBranch\b/.test(reason)) return mapCommand(key, 'defaultBranch', 'BRANCH')
  if (/\b(correct|set) remote\b/.test(reason)) return mapCommand(key, 'remote', 'OWNER/NAME')
  return run === undefined
    ? undefined
    : `when that is mended, at once: switchyard retry ${ticketInCommand(ticket)}`
}

function unmatched({ project, labels }: Ticket): Gate {
  if (project !== undefined) {
    const command = mapCommand(keyFor(project), 'trackerProject', project)
    return stop('repository', `project "${printable(project)}" is in no repos.*.trackerProject`, command)
  }
  const [label] = labels
  return label === undefined
    ? stop('repository', 'it has no project and no label, and each repository asks for one')
    : stop(
        'repository',
        `none of its labels (${formatNames(labels)}) is in a repos.*.label`,
        mapCommand(keyFor(label), 'label', label),
      )
}

/** Suggests a key that needs no quotes in a shell. */
const keyFor = (name: string): string =>
  name
    .toLowerCase()
    .replace(/[^a-z0-9]+/g, '-')
    .replace(/^-+|-+$/g, '') || 'web'

const mapCommand = (key: string, field: string, value: string): string =>
  `switchyard config set repos.${key}.${field} ${quoteWord(printable(value))}`

// ---- blockers ----------------------------------------------------------------------------------------------------

const ENDED_WORDS: Partial<Record<RunStatus, string>> = { failed: 'failed', cancelled: 'was cancelled' }

function judgeBlockers({ run, blockers, cycle }: ExplainFacts): Gate {
  if (run?.isFollowUp === true) return pass('blockers', 'a follow-up waits for none')
  if (run?.publishes === true) return pass('blockers', 'finished work waits for none')
  const [first] = blockers
  if (first === undefined) return pass('blockers', 'none')
  const command = `switchyard explain ${ticketInCommand(first.ticket)}`
  if (cycle.length > 0)
    return stop(
      'blockers',
      `each waits for the next: ${formatNames(cycle)}`,
      "take one out of another's blockedBy",
    )
  const parts = blockers.map(({ ticket: { identifier, state }, status, review }) => {
    if (review !== undefined) return `${identifier} is under review`
    if (status === undefined) return `${identifier} is in state ${state}`
    if (status === 'completed') return `${identifier} is completed, and in state ${state}`
    return `${identifier} ${ENDED_WORDS[status] ?? `is ${status}`}`
  })
  // A run that has ended so is not tried again by itself.
  const ended = blockers.find(({ status }) => status === 'failed' || status === 'cancelled')
  if (ended !== undefined)
    return stop('blockers', formatNames(parts), `switchyard retry ${ticketInCommand(ended.ticket)}`)
  const reviewed = blockers.find(({ review }) => review !== undefined)
  if (reviewed?.review !== undefined) return stop('blockers', formatNames(parts), reviewed.review)
  return wait('blockers', formatNames(parts), command)
}

// ---- other runs, and the policy ----------------------------------------------------------------------------------

function judgeDuplicate({ ticket, otherRun }: ExplainFacts): Gate {
  if (otherRun === undefined) return pass('duplicate', 'no other active run')
  const { id, status, isMerged } = otherRun
  if (!isTerminal(status)) return wait('duplicate', `${id} is ${status}`, `switchyard explain ${id}`)
  const { identifier } = ticket
  const again = status === 'completed' || isMerged ? 'start' : 'retry'
  return stop(
    'duplicate',
    `${id} is ${status}, and ${identifier} has not changed its state since`,
    `switchyard ${again} ${ticketInCommand(ticket)}`,
  )
}

function judgePolicy({ config, serviceProblem, startable }: ExplainFacts): Gate {
  if (serviceProblem !== undefined) return wait('policy', serviceProblem)
  if (!config.policy.paused) return pass('policy', 'not paused')
  const runs = startable === 1 ? '1 run' : `${startable} runs`
  return stop('policy', `running work goes on; ${runs} would start`, 'switchyard resume')
}
