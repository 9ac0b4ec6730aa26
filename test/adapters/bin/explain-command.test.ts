/** `switchyard explain` against a real listener, drawn for a terminal. */
import { expect, test } from '@jest/globals'
import type { CommandContext } from '../../../bin/cli/command/run-command.ts'
import { type ExplainOptions, explain } from '../../../bin/cli/status/explain.ts'
import { yes } from '../../../core/result.ts'
import { GATE_IDS, type Gate } from '../../../protocol/explain.ts'
import type { Run } from '../../../protocol/run.ts'
import { openCommandHost } from '../../support/command-host.ts'
import { fakeRun, fakeTicket } from '../../support/fake-host-api.ts'

const command = (context: CommandContext<ExplainOptions>) => explain(context, 'ENG-1')

/** All gates in their order; those that are not given pass. */
const gatesWith = (given: Readonly<Record<string, Omit<Gate, 'id'>>>): Gate[] =>
  GATE_IDS.map((id) => ({ id, ...(given[id] ?? { status: 'pass', message: `${id} is fine` }) }))

async function openExplained(gates: readonly Gate[], run?: Partial<Run>) {
  const host = await openCommandHost()
  const explained = run === undefined ? {} : { run: { ...fakeRun('run-1', 'queued'), ...run } }
  host.hostApi.explainTicket = () => yes({ ticket: fakeTicket('ENG-1'), ...explained, gates: [...gates] })
  return host
}

const FULL = gatesWith({
  capacity: {
    status: 'wait',
    message: 'atlas 2 of 2, forge 2 of 2 slots; next in line',
    cure: 'wait, or: switchyard workers pair',
  },
})

test('gates that pass share the last line, and a cure stands on a line of its own', async () => {
  const { print } = await openExplained(FULL, { queueReason: 'fleet at capacity' })
  expect((await print(command, { columns: 80 })).out).toBe(
    [
      'ENG-1 waits: fleet at capacity',
      '  wait  capacity    atlas 2 of 2, forge 2 of 2 slots; next in line',
      '        cure        wait, or: switchyard workers pair',
      '  pass  10 others   (--all shows each)\n',
    ].join('\n'),
  )
})

test('--all and a pipe give each gate its own line, in order', async () => {
  const { print } = await openExplained(FULL, { queueReason: 'fleet at capacity' })
  const all = await print(command, { columns: 80, options: { all: true } })
  const [, ...drawn] = all.out.trimEnd().split('\n')
  expect(drawn.filter((line) => !line.includes(' cure ')).map((line) => line.slice(8, 20).trim())).toEqual([
    ...GATE_IDS,
  ])
  expect(drawn[0]).toBe('  pass  tracker     tracker is fine')
  const [, ...piped] = (await print(command)).out.trimEnd().split('\n')
  expect(piped.map((line) => line.split('\t')[1])).toEqual([...GATE_IDS])
  expect(piped[8]).toBe(
    'wait\tcapacity\tatlas 2 of 2, forge 2 of 2 slots; next in line\twait, or: switchyard workers pair',
  )
})

test('a cure follows its finding where both fit, and the lines of a long finding stay below it', async () => {
  const message = 'running work goes on; 3 runs would start'
  const gates = gatesWith({ policy: { status: 'stop', message, cure: 'switchyard resume' } })
  const { print } = await openExplained(gates, { queueReason: 'paused' })
  expect((await print(command, { columns: 80 })).out.split('\n')[1]).toBe(
    '  stop  policy      running work goes on; 3 runs would start: switchyard resume',
  )
  expect((await print(command, { columns: 50 })).out.split('\n').slice(1, 4)).toEqual([
    '  stop  policy      running work goes on; 3 runs',
    '                    would start',
    '        cure        switchyard resume',
  ])
})

test('a gate names agents as people do', async () => {
  const gates = gatesWith({ credential: { status: 'stop', message: 'credential of agentA is missing' } })
  const { print } = await openExplained(gates, { queueReason: 'paused' })
  expect((await print(command, { columns: 80 })).out).toContain('credential  credential of claude is missing')
  expect((await print(command)).out).toContain('stop\tcredential\tcredential of claude is missing\t')
})

test('a long answer wraps at words, and a pipe has it in one line', async () => {
  const error = 'the second verification "npm test" exited with 1'
  const { print } = await openExplained([], { status: 'failed', error })
  expect((await print(command, { columns: 40 })).out).toBe(
    'ENG-1 failed: the second verification\n"npm test" exited with 1\n',
  )
  expect((await print(command)).out).toBe(`ENG-1 failed: ${error}\n`)
})

test('a finished run is explained by its error and the next commands, not by the gates of another run', async () => {
  const stopped = gatesWith({ duplicate: { status: 'stop', message: 'run-1 is failed' } })
  const { print } = await openExplained(stopped, {
    status: 'failed',
    error: 'verify "npm test" exited with 1',
  })
  const { out, err } = await print(command, { columns: 80 })
  expect(out).toBe('ENG-1 failed: verify "npm test" exited with 1\n')
  expect(err).toBe('Next: switchyard logs ENG-1   or   switchyard retry ENG-1\n')
  const all = (await print(command, { columns: 80, options: { all: true } })).out.split('\n')
  expect(all[1]).toBe('Another run of ENG-1:')
  expect(all).toContain('  stop  duplicate   run-1 is failed')
})

test.each<[string, Partial<Run> | undefined, string]>([
  ['a queued run that is next', {}, 'ENG-1 is next'],
  ['an active run', { status: 'running' }, 'ENG-1 is running'],
  ['a completed run', { status: 'completed' }, 'ENG-1 completed'],
  [
    'a run without changes',
    { status: 'completed', result: { artifacts: [], summary: '' } },
    'ENG-1 completed: it changed nothing',
  ],
  ['a ticket without a run', undefined, 'ENG-1 has no run yet'],
])('the first line answers for %s', async (_, run, line) => {
  const { print } = await openExplained(gatesWith({}), run)
  expect((await print(command, { columns: 80 })).out.split('\n')[0]).toBe(line)
})

test('a ticket without a run is answered in the words of a queue reason, and a gate has the evidence', async () => {
  const message = 'the evidence of the gate'
  const gates = gatesWith({ repository: { status: 'stop', message } })
  const { print, hostApi } = await openExplained(gates)
  const answer = { ticket: fakeTicket('ENG-1'), gates: [...gates] }
  hostApi.explainTicket = () => yes({ ...answer, reason: 'no repository is for ENG-1' })
  const [first, gate] = (await print(command, { columns: 80 })).out.split('\n')
  expect([first, gate]).toEqual([
    'ENG-1 has no run: no repository is for ENG-1',
    `  stop  repository  ${message}`,
  ])
  hostApi.explainTicket = () => yes(answer)
  expect((await print(command, { columns: 200 })).out.split('\n')[0]).toBe(`ENG-1 has no run: ${message}`)
})

test('what nobody knows ends with 1, and names a next step', async () => {
  const { run } = await openCommandHost()
  const { code, out, err } = await run('explain', 'ENG-999')
  expect([code, out]).toEqual([1, ''])
  expect(err).toMatch(/ENG-999\n {2}try: switchyard runs/)
})
