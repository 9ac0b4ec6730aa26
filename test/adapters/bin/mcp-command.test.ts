/** `switchyard mcp` as a process: how it is started, spoken to byte by byte, and ended. */
import { type ChildProcessWithoutNullStreams, spawn } from 'node:child_process'
import { mkdirSync } from 'node:fs'
import { join } from 'node:path'
import { describe, expect, test } from '@jest/globals'
import { MCP_LINE_BYTES_MAX } from '../../../bin/cli/mcp/serve-stdio.ts'
import { listMcpTools, MCP_GRANTS } from '../../../protocol/mcp-tools.ts'
import { commandPath } from '../../support/command-process.ts'
import { fakeRun } from '../../support/fake-host-api.ts'
import { connectMcp } from '../../support/mcp-client.ts'
import { tempFolder } from '../../support/temp-folder.ts'
import { closeAfterTest, openTestServer, TOKEN } from '../../support/test-resources.ts'
import { until } from '../../support/until.ts'

interface Started {
  readonly child: ChildProcessWithoutNullStreams
  readonly out: () => string
  readonly err: () => string
  readonly exit: Promise<number | NodeJS.Signals>
}

function start(...args: readonly string[]): Started {
  const env = { PATH: process.env.PATH, HOME: process.env.HOME }
  const child = spawn(process.execPath, [commandPath, 'mcp', ...args], { env })
  closeAfterTest(() => child.kill('SIGKILL'))
  let [out, err] = ['', '']
  child.stdout.on('data', (chunk) => {
    out += String(chunk)
  })
  child.stderr.on('data', (chunk) => {
    err += String(chunk)
  })
  child.stdin.on('error', () => {})
  const exit = new Promise<number | NodeJS.Signals>((resolve) => {
    child.on('close', (code, signal) => resolve(code ?? signal ?? -1))
  })
  return { child, out: () => out, err: () => err, exit }
}

const request = (id: number, method: string, params: object = {}): string =>
  `${JSON.stringify({ jsonrpc: '2.0', id, method, params })}\n`
const INITIALIZE = request(0, 'initialize', { protocolVersion: '2025-11-25', capabilities: {} })
const toolCall = (id: number, name: string, input: object = {}): string =>
  request(id, 'tools/call', { name, arguments: input })
const messages = (text: string): Record<string, unknown>[] =>
  text
    .split('\n')
    .filter((line) => line !== '')
    .map((line) => JSON.parse(line))

describe('spoken to byte by byte', () => {
  test('garbage, a long line and requests in pieces are each answered once, and the end of input ends it', async () => {
    const { child, out, err, exit } = start('--data-dir', tempFolder())
    const text = [
      request(1, 'tools/list'),
      INITIALIZE,
      'garbage\n',
      '[]\n',
      `${'x'.repeat(MCP_LINE_BYTES_MAX + 1)}\n`,
      request(2, 'no/such'),
      toolCall(3, 'status'),
      request(4, 'ping').trimEnd(),
    ].join('')
    for (let at = 0; at < text.length; at += 300_007) child.stdin.write(text.slice(at, at + 300_007))
    child.stdin.end()
    expect(await exit).toBe(0)
    const answers = messages(out()).map(({ id, error, result }) => [
      id,
      Object(error).code ?? Object.keys(Object(result)).length,
    ])
    expect(answers.slice(0, -2)).toEqual([
      [1, -32600],
      [0, 4],
      [null, -32700],
      [null, -32600],
      [null, -32600],
      [2, -32601],
    ])
    // The call is answered later than what is asked after it, or before.
    expect(answers.slice(-2).sort()).toEqual([
      [3, 2],
      [4, 0],
    ])
    expect(err()).toBe('')
  })

  test.each(['SIGTERM', 'SIGINT'] as const)('%s ends it', async (signal) => {
    const { child, out, err, exit } = start('--data-dir', tempFolder())
    child.stdin.write(INITIALIZE)
    await until('it answers', () => out() !== '')
    child.kill(signal)
    expect([await exit, err()]).toEqual([0, ''])
  })

  test('a client that has closed its end of the output ends it', async () => {
    const { child, out, err, exit } = start('--data-dir', tempFolder())
    child.stdin.write(INITIALIZE)
    await until('it answers', () => out() !== '')
    child.stdout.destroy()
    child.stdin.write(request(1, 'ping'))
    child.stdin.write(request(2, 'ping'))
    expect([await exit, err()]).toEqual([0, ''])
  })

  test('a wait does not hold up the end', async () => {
    const { hostApi, url } = await openTestServer()
    const run = fakeRun(`run-${'a'.repeat(32)}`, 'running')
    hostApi.runsById.set(run.id, run)
    const client = await connectMcp([], { env: { SWITCHYARD_URL: url, SWITCHYARD_TOKEN: TOKEN } })
    let isWatched = false
    const onprogress = () => {
      isWatched = true
    }
    const waiting = client.call('runs_wait', { run: run.id, timeoutSeconds: 600 }, { onprogress })
    const ended = waiting.catch(() => 'ended')
    await until('the run is watched', () => isWatched)
    const begun = performance.now()
    await client.client.close()
    await ended
    expect(performance.now() - begun).toBeLessThan(10_000)
  })
})

describe('its options', () => {
  test('--data-dir names the host that is asked, and SWITCHYARD_URL another', async () => {
    const folder = join(tempFolder(), 'nobody')
    mkdirSync(folder)
    const client = await connectMcp(['--data-dir', folder])
    const answer = await client.call('status')
    expect([answer.isError, answer.text]).toEqual([
      true,
      `no host is running for ${folder}\nNext: switchyard serve --data-dir ${folder}`,
    ])
    const { hostApi, url } = await openTestServer()
    hostApi.runsById.set('run-1', fakeRun('run-1'))
    const named = await connectMcp([], { env: { SWITCHYARD_URL: url, SWITCHYARD_TOKEN: TOKEN } })
    expect((await named.call('runs_list')).result).toMatchObject({ runs: [{ run: 'run-1' }] })
    expect(named.err()).toBe('')
  })

  test.each([
    ['without --write only tools that read are listed', []],
    ['with --write tools that change something are listed, with --merge the one that merges', MCP_GRANTS],
    ['without --instruct no call takes instructions', ['write' as const]],
  ])('%s', async (_, grants) => {
    const hasWrite = grants.length > 0
    const args = ['--data-dir', tempFolder(), ...grants.map((grant) => `--${grant}`)]
    const { client } = await connectMcp(args, { isNewest: hasWrite })
    const { tools } = await client.listTools()
    expect(tools).toEqual(listMcpTools(new Set(grants)).map((tool) => expect.objectContaining(tool)))
    expect(client.getInstructions()).toContain(hasWrite ? 'runs_wait' : '--write')
  })
})

test('a client that stops waiting cancels the call, and the next one is answered', async () => {
  const { hostApi, url } = await openTestServer()
  const run = fakeRun(`run-${'b'.repeat(32)}`, 'running')
  hostApi.runsById.set(run.id, run)
  const { call } = await connectMcp([], { env: { SWITCHYARD_URL: url, SWITCHYARD_TOKEN: TOKEN } })
  const stop = new AbortController()
  const waiting = call('runs_wait', { run: run.id }, { signal: stop.signal, onprogress: () => stop.abort() })
  await expect(waiting).rejects.toThrow()
  expect((await call('runs_wait', { run: run.id, timeoutSeconds: 1 })).result).toMatchObject({
    ended: false,
    readOn: { run: run.id },
  })
})
