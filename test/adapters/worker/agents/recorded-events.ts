/** Runs listeners over recorded agent output, and summarizes the result as readable lines. */
import { readFileSync } from 'node:fs'
import { PRICES } from '../../../../core/run/price-table.ts'
import type {
  AgentExit,
  AgentExitReport,
  AgentListener,
  AgentObservation,
  AgentTask,
} from '../../../../worker/agents/agent.ts'
import { createAgentAListener } from '../../../../worker/agents/agent-a/listener.ts'
import { createAgentBListener } from '../../../../worker/agents/agent-b/listener.ts'
import { createAgentCListener } from '../../../../worker/agents/agent-c/listener.ts'

export const AT = '2026-11-21T01:30:00.000Z'

export function taskOf(more: Partial<AgentTask> = {}): AgentTask {
  return {
    agent: { provider: 'agentA', instructions: '', memories: [] },
    prompt: 'Greet.',
    sessionId: '11111111-2222-4333-8444-555555555555',
    environment: {},
    ...more,
  }
}

export const withModel = (model: string): Partial<AgentTask> => ({
  agent: { provider: 'agentB', model, instructions: '', memories: [] },
})

export function sample(name: string): string[] {
  const text = readFileSync(new URL(`./samples/${name}.jsonl`, import.meta.url), 'utf8')
  return text.split('\n').filter((line) => line !== '')
}

export const listeners: Readonly<Record<'claude' | 'codex' | 'gemini', (task: AgentTask) => AgentListener>> =
  {
    claude: (task) => createAgentAListener(task, PRICES),
    codex: (task) => createAgentBListener(task, PRICES),
    gemini: () => createAgentCListener(PRICES),
  }

export interface ListenerRun {
  readonly observations: readonly AgentObservation[]
  readonly report: AgentExitReport
}

export function runListener(
  kind: keyof typeof listeners,
  lines: readonly string[],
  exit: AgentExit,
  more: Partial<AgentTask> = {},
  complaints: readonly string[] = [],
): ListenerRun {
  const listener = listeners[kind](taskOf(more))
  const observations = lines.flatMap((line) => listener.onOutputLine(line, AT))
  observations.push(...complaints.flatMap((line) => listener.onErrorLine(line, AT)))
  return { observations, report: listener.onExit(exit, AT) }
}

/** Returns a line for the verdict and one for each other known fact. */
export function summarize({ observations, report }: ListenerRun): string[] {
  const { verdict, reason, summary, cost, costIsPartial, events } = report
  return [
    `${verdict}${reason === undefined ? '' : `: ${reason}`}`,
    ...(summary === undefined ? [] : [`summary: ${summary}`]),
    ...(cost === undefined ? [] : [costLine(cost) + (costIsPartial === true ? ', partial' : '')]),
    ...(cost?.breakdown ?? []).map((row) => `  ${costLine({ ...row, estimated: false })}`),
    ...events.map((event) =>
      event.type === 'limit'
        ? `limit of ${event.provider} until ${event.resetsAt ?? '?'}: ${event.message}`
        : event.type,
    ),
    ...observations.flatMap((observation) =>
      observation.is === 'session' ? [`session ${observation.id}`] : [],
    ),
    ...describeSpending(observations),
    `events: ${countEvents(observations)}`,
  ]
}

type CostFigures = Omit<NonNullable<AgentExitReport['cost']>, 'label' | 'provider' | 'breakdown'>

function costLine({
  model,
  inputTokens,
  outputTokens,
  cacheReadTokens,
  cacheWriteTokens,
  costUsd,
  estimated,
}: CostFigures) {
  const tokens = `${inputTokens} in, ${outputTokens} out, ${cacheReadTokens} read, ${cacheWriteTokens} written`
  return `${model ?? 'no model'}: ${tokens}, ${costUsd === undefined ? 'no price' : `$${costUsd}`}${estimated ? ' estimated' : ''}`
}

function describeSpending(observations: readonly AgentObservation[]): string[] {
  const last = observations.findLast((observation) => observation.is === 'spent')
  if (last?.is !== 'spent') return []
  return [`spent at last: ${last.turns} turns${last.costUsd === undefined ? '' : `, $${last.costUsd}`}`]
}

function countEvents(observations: readonly AgentObservation[]): string {
  const counts = new Map<string, number>()
  for (const observation of observations) {
    if (observation.is !== 'event') continue
    const kind = observation.event.type === 'log' ? observation.event.stream : observation.event.type
    counts.set(kind, (counts.get(kind) ?? 0) + 1)
  }
  return [...counts].map(([kind, count]) => `${count} ${kind}`).join(', ')
}
