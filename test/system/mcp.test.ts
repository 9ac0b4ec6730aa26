/** An agent in an editor starts work from words and waits for it: a real host, a real run, the official client. */
import { expect, test } from '@jest/globals'
import { readLaunch } from '../support/command-process.ts'
import { LocalSystem, SECRETS } from '../support/local-system.ts'
import { type CalledTool, connectMcp } from '../support/mcp-client.ts'
import { until } from '../support/until.ts'

const SCRIPT = ['```switchyard', 'write hello.txt', '  Hello!', 'say Done.', '```'].join('\n')
const TEST_MS_MAX = 240_000

test(
  'a run is started from words and waited for across the death of its host, and its pull request is read and merged',
  async () => {
    const system = await LocalSystem.open({ local: true })
    await system.waitForOnlineWorkers(1)
    const [reader, writer] = await Promise.all([
      connectMcp(['--data-dir', system.dataDir]),
      connectMcp(['--data-dir', system.dataDir, '--write', '--merge'], { isNewest: true }),
    ])
    const answers: CalledTool[] = []
    const read = async (name: string, input = {}) => {
      const answer = await reader.call(name, input)
      answers.push(answer)
      expect([name, answer.isError, answer.text]).toEqual([name, false, JSON.stringify(answer.result)])
      return answer.result
    }

    const { tools } = await reader.client.listTools()
    expect(tools.every(({ annotations }) => annotations?.readOnlyHint === true)).toBe(true)
    const refused = await reader.call('tickets_create', { title: 'Say hello' })
    expect([refused.isError, refused.text]).toEqual([true, expect.stringContaining('--write')])
    expect(await read('tickets_list')).toMatchObject({ tickets: [], total: 0 })

    const words = { title: 'Say hello', repo: 'plain', description: SCRIPT }
    const created = await writer.call('tickets_create', words)
    expect(created.result).toMatchObject({ ticket: { ticket: 'say-hello' }, run: { status: 'queued' } })
    const progress: string[] = []
    const waiting = writer.call(
      'runs_wait',
      { run: 'say-hello', timeoutSeconds: 120 },
      { onprogress: ({ message = '' }) => progress.push(message) },
    )
    await until('the run is watched', () => progress.length > 0)
    const deadToken = readLaunch(system.dataDir)?.token ?? ''
    system.host.process.kill('SIGKILL')
    await system.host.exit
    const away = await reader.call('runs_list')
    expect([away.isError, away.text]).toEqual([true, expect.stringContaining('switchyard serve')])
    await system.startHost()

    expect((await waiting).result).toMatchObject({ ended: true, status: 'completed', ticket: 'say-hello' })
    expect(progress.length).toBeGreaterThan(0)
    expect(await read('runs_show', { run: 'say-hello' })).toMatchObject({
      result: { summary: expect.anything() },
    })
    const { lines } = await read('runs_logs', { run: 'say-hello' })
    expect(lines).toContainEqual(expect.stringMatching(/^\d\d:\d\d:\d\d -- completed/))
    expect(await read('explain', { name: 'say-hello' })).toMatchObject({ answer: 'say-hello completed' })
    const { pulls } = await read('pulls_list', { repo: 'plain' })
    expect(pulls).toMatchObject([{ pull: 'plain#1', state: 'open' }])
    expect((await read('pulls_diff', { pull: 'say-hello' })).diff).toContain('+Hello!')

    const merged = await writer.call('pulls_merge', { pull: 'plain#1', method: 'squash' })
    expect(merged.result).toMatchObject({ pull: 'plain#1', merged: true })
    expect(await read('pulls_show', { pull: 'plain#1' })).toMatchObject({ state: 'merged' })
    for (const name of ['status', 'attention', 'workers_list', 'costs']) await read(name)
    await read('runs_list', { ticket: 'say-hello' })
    await read('tickets_show', { ticket: 'say-hello' })
    await read('pulls_checks', { pull: 'plain#1' })

    const secrets = [deadToken, readLaunch(system.dataDir)?.token ?? '', ...Object.values(SECRETS)]
    const texts = [...answers.map(({ text }) => text), reader.err(), writer.err(), ...progress].join('\n')
    expect(secrets.filter((secret) => secret === '' || texts.includes(secret))).toEqual([])
    expect([reader.err(), writer.err()]).toEqual(['', ''])
  },
  TEST_MS_MAX,
)
