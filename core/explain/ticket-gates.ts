/** Judges what the ticket itself brings along: eligibility, repository, blockers. */
import type { Gate } from '../../protocol/explain.ts'
import type { Ticket } from '../../protocol/run.ts'
import { printable } from '../../protocol/schema-errors.ts'
import { ticketInCommand } from '../run/name-in-commands.ts'
import { type EligibilityObstacle, eligibilityObstacle } from '../tickets/eligibility.ts'
import { formatNames } from '../tickets/names.ts'
import type { ExplainFacts } from './facts.ts'
import { pass, stop, wait } from './gate.ts'
import { sharedReasonAt } from './worker-gates.ts'

// ---- eligible ----------------------------------------------------------------------------------------------------

/** A run that is queued already needs no eligible ticket: a person may have started it. */
export function judgeEligibility(facts: ExplainFacts): Gate {
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

export function judgeRepository(facts: ExplainFacts): Gate {
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

function mapCommand(key: string, field: string, value: string): string {
  const word = /^[\w./@-]+$/.test(value) ? value : `'${printable(value).replaceAll("'", `'\\''`)}'`
  return `switchyard config set repos.${key}.${field} ${word}`
}

// ---- blockers ----------------------------------------------------------------------------------------------------

export function judgeBlockers({ run, blockers, cycle }: ExplainFacts): Gate {
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
  const parts = blockers.map(({ ticket, status }) =>
    status === undefined
      ? `${ticket.identifier} is in state ${ticket.state}`
      : `${ticket.identifier} is ${status}`,
  )
  return wait('blockers', formatNames(parts), command)
}
