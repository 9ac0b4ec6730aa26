/** The lines of a log for people. The messages of agents are shortened ones of captured streams. */
import { describe, expect, test } from '@jest/globals'
import { lastLineOf, lineOf } from '../../../bin/cli/runs/run-lines.ts'
import type { RunEvent } from '../../../protocol/run.ts'

const base = { runId: 'run-1', index: 0, at: '2026-11-22T14:00:00.000Z' }

const agentEvent = (message: Record<string, unknown>): RunEvent => ({
  ...base,
  type: 'agent',
  provider: 'agentA',
  message,
})
const logEvent = (stream: 'stdout' | 'stderr' | 'system', text: string): RunEvent => ({
  ...base,
  type: 'log',
  stream,
  text,
})

/** The mark and the text of the line. */
function shown(event: RunEvent): string | undefined {
  const line = lineOf(event)
  return line === undefined ? undefined : `${line.mark} ${line.text}`
}

describe('messages of Claude Code', () => {
  const assistant = (...content: object[]) =>
    agentEvent({ type: 'assistant', message: { role: 'assistant', content } })
  test.each([
    ['words', assistant({ type: 'text', text: 'Let me run it.' }), '> Let me run it.'],
    [
      'a call of a tool',
      assistant({
        type: 'tool_use',
        name: 'Bash',
        input: { command: 'cat out.txt\nrm x', description: 'w' },
      }),
      '> Bash: cat out.txt',
    ],
    [
      'a tool without telling arguments',
      assistant({ type: 'tool_use', name: 'TodoRead', input: {} }),
      '> TodoRead',
    ],
    ['thinking', assistant({ type: 'thinking', thinking: 'Hm.' }), undefined],
    [
      'the answer of a tool',
      agentEvent({
        type: 'user',
        message: { role: 'user', content: [{ type: 'tool_result', content: 'hi' }] },
      }),
      undefined,
    ],
    ['the beginning', agentEvent({ type: 'system', subtype: 'init', cwd: '/workspace/repo' }), undefined],
    ['the end', agentEvent({ type: 'result', total_cost_usd: 0.01, stop_reason: 'end_turn' }), undefined],
  ])('%s', (_, event, text) => {
    expect(shown(event)).toBe(text)
  })
})

test('what a tool printed is indented, where it is asked for', () => {
  const content = [{ type: 'tool_result', tool_use_id: 'a', content: 'FAIL cart\n  at line 3\n' }]
  const answer = agentEvent({ type: 'user', message: { role: 'user', content } })
  expect([lineOf(answer), lineOf(answer, true)?.text]).toEqual([undefined, '  FAIL cart\n    at line 3'])
})

describe('messages of Codex', () => {
  const command = { id: 'item_1', type: 'command_execution', command: "/bin/bash -lc 'echo hi'" }
  test.each([
    ['the start of a command', { type: 'item.started', item: command }, "> command: /bin/bash -lc 'echo hi'"],
    ['its end', { type: 'item.completed', item: { ...command, exit_code: 0 } }, undefined],
    [
      'words',
      { type: 'item.completed', item: { id: 'item_3', type: 'agent_message', text: 'All done.' } },
      '> All done.',
    ],
    ['thinking', { type: 'item.completed', item: { id: 'i', type: 'reasoning', text: 'Hm' } }, undefined],
    ['an error', { type: 'error', message: 'Reconnecting... 2/5' }, '> error: Reconnecting... 2/5'],
    ['the beginning', { type: 'thread.started', thread_id: '01a1' }, undefined],
    ['the end', { type: 'turn.completed', usage: { input_tokens: 2000 } }, undefined],
  ])('%s', (_, message, text) => {
    expect(shown(agentEvent(message))).toBe(text)
  })
})

describe('messages of Gemini CLI', () => {
  test.each([
    ['words', { type: 'message', role: 'assistant', content: 'All done.', delta: true }, '> All done.'],
    ['the prompt', { type: 'message', role: 'user', content: 'say hi' }, undefined],
    [
      'a call of a tool',
      { type: 'tool_use', tool_name: 'run_shell_command', parameters: { command: 'echo hi' } },
      '> run_shell_command: echo hi',
    ],
    [
      'the answer of a tool',
      { type: 'tool_result', tool_id: 'x', status: 'success', output: 'hi' },
      undefined,
    ],
    ['the end', { type: 'result', status: 'success', stats: { total_tokens: 2140 } }, undefined],
  ])('%s', (_, message, text) => {
    expect(shown(agentEvent(message))).toBe(text)
  })
})

test.each<[string, RunEvent, string | undefined]>([
  ['standard output', logEvent('stdout', 'added 412 packages\n'), ' added 412 packages'],
  ['standard error', logEvent('stderr', 'npm warn\r\n'), '! npm warn'],
  ['the system', logEvent('system', 'setup: npm ci'), '# setup: npm ci'],
  ['a state', { ...base, type: 'status', to: 'preparing' }, '-- preparing'],
  [
    'a gap',
    { ...base, type: 'gap', from: 5011, to: 5224 },
    "~~ frames 5011 to 5224 lost: the worker's buffer was full while it was offline",
  ],
  [
    'a limit',
    { ...base, type: 'limit', provider: 'agentA', message: 'resets at 5pm' },
    '# usage limit of agentA: resets at 5pm',
  ],
  ['a message in an unknown form', agentEvent({ type: ['text'], message: 7, content: [null, 3] }), undefined],
])('a line for %s', (_, event, text) => {
  expect(shown(event)).toBe(text)
})

test.each([
  [{ worker: 'atlas' }, 'on atlas'],
  [{ provider: 'agentA' }, 'claude'],
  [{ provider: 'agentZ' }, 'agentZ'],
  [{ reason: 'fleet at capacity' }, 'fleet at capacity'],
  [{ worker: 'atlas', reason: 'again' }, 'on atlas: again'],
  [{}, undefined],
])('a state with %j', (fields, reason) => {
  expect(lineOf({ ...base, type: 'status', to: 'running', ...fields })?.reason).toBe(reason)
})

test('the agent said its last words, whatever programs printed later', () => {
  const words = agentEvent({ type: 'message', role: 'assistant', content: 'One.\nTwo.' })
  expect(lastLineOf([words, logEvent('stdout', 'later')])).toBe('Two.')
  expect(lastLineOf([logEvent('stdout', 'only\nthis\n')])).toBe('this')
  expect(lastLineOf([])).toBeUndefined()
})
