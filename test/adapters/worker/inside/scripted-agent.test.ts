/** Tests of the scripted agent as a process: its changes to a folder, its output lines, its ends. */
import { execFileSync } from 'node:child_process'
import {
  existsSync,
  mkdirSync,
  readdirSync,
  readFileSync,
  statSync,
  symlinkSync,
  writeFileSync,
} from 'node:fs'
import { createServer } from 'node:net'
import { join } from 'node:path'
import { describe, expect, test } from '@jest/globals'
import {
  type AgentFolders,
  createAgentFolders,
  HEADLESS,
  type ParsedStreamLine,
  promptOf,
  readJsonLines,
  runScriptedAgent,
  type ScriptedAgentProcess,
} from '../../../support/scripted-agent.ts'
import { until } from '../../../support/until.ts'

const SESSION = '11111111-2222-4333-8444-555555555555'
const withSession = [...HEADLESS, '--session-id', SESSION]
const withResume = [...HEADLESS, '--resume', SESSION]

async function runToEnd(folders: AgentFolders, script: readonly string[], args = HEADLESS) {
  const played = runScriptedAgent(folders, promptOf(...script), args)
  const code = await played.ended
  return { code, lines: played.lines(), result: resultOf(played), out: played.out(), err: played.err() }
}

function resultOf(played: ScriptedAgentProcess): ParsedStreamLine {
  const last = played.lines().at(-1)
  return last?.type === 'result' ? last : { type: 'none' }
}

const read = (folders: AgentFolders, path: string) => readFileSync(join(folders.cwd, path), 'utf8')
const message = (line: ParsedStreamLine) => Object(line.message)
const assistants = (lines: readonly ParsedStreamLine[]) => lines.filter(({ type }) => type === 'assistant')
const transcriptOf = ({ cwd, home }: AgentFolders) =>
  join(home, '.claude', 'projects', cwd.replace(/[^a-zA-Z0-9]/g, '-'), `${SESSION}.jsonl`)

interface TokenSums {
  inputTokens: number
  outputTokens: number
  cacheReadInputTokens: number
  cacheCreationInputTokens: number
  costUSD: number
}
const sum = (spent: unknown, key: keyof TokenSums): number =>
  Object.values<TokenSums>(Object(spent)).reduce((total, usage) => total + usage[key], 0)

describe('running a script', () => {
  test('writes, edits and deletes files, runs commands and commits', async () => {
    const folders = createAgentFolders()
    execFileSync('git', ['init', '--quiet'], { cwd: folders.cwd })
    writeFileSync(join(folders.cwd, 'a.js'), 'const a = 1\nconst b = 2\n')
    writeFileSync(join(folders.cwd, 'old.txt'), '')
    const { code, result } = await runToEnd(folders, [
      'write docs/new.md',
      '  # New',
      'append docs/new.md',
      '  more',
      'edit a.js',
      '  - const a = 1',
      '  + const a = "$&"',
      'delete old.txt',
      'run node -p 6*7 > answer.txt',
      'try false',
      'commit All of it',
      'say Well done.',
    ])
    expect({ code, result: result.result, turns: result.num_turns }).toEqual({
      code: 0,
      result: 'Well done.',
      turns: 8,
    })
    expect(read(folders, 'docs/new.md')).toBe('# New\nmore\n')
    expect(read(folders, 'a.js')).toBe('const a = "$&"\nconst b = 2\n')
    expect(read(folders, 'answer.txt')).toBe('42\n')
    expect(existsSync(join(folders.cwd, 'old.txt'))).toBe(false)
    expect(execFileSync('git', ['status', '--porcelain'], { cwd: folders.cwd }).toString()).toBe('')
    const subject = execFileSync('git', ['log', '-1', '--format=%s'], { cwd: folders.cwd }).toString()
    expect(subject).toBe('All of it\n')
  })

  test('artifacts and memories are written where the worker collects them', async () => {
    const folders = createAgentFolders()
    await runToEnd(folders, ['artifact r.txt', '  report', 'remember one', '  fact', 'remember another'])
    expect(readFileSync(join(folders.artifacts, 'r.txt'), 'utf8')).toBe('report\n')
    expect(readFileSync(folders.memories, 'utf8')).toBe('one fact\nanother\n')
  })

  test('a failing step ends the script, with its line and message', async () => {
    const folders = createAgentFolders()
    const { code, result } = await runToEnd(folders, ['say x', 'run echo why; exit 3', 'write never.txt'])
    expect(code).toBe(1)
    expect(result).toMatchObject({
      is_error: true,
      subtype: 'error_during_execution',
      errors: ['step run in line 2 went wrong: why\n(exit code 3)'],
    })
    expect(existsSync(join(folders.cwd, 'never.txt'))).toBe(false)
    const long = await runToEnd(createAgentFolders(), ['run seq 40; exit 3'])
    expect(long.result).toMatchObject({ errors: [expect.stringMatching(/: \(exit code 3\) .* 40 lines /)] })
  })

  test('files outside the working directory are not touched', async () => {
    const folders = createAgentFolders()
    mkdirSync(join(folders.cwd, 'in'))
    symlinkSync(folders.home, join(folders.cwd, 'out'))
    symlinkSync(join(folders.home, 'made'), join(folders.cwd, 'link'))
    for (const path of ['../x', join(folders.home, 'x'), 'out/x', 'link', 'in/../../x', '.']) {
      for (const script of [[`write ${path}`, '  x'], [`append ${path}`, '  x'], [`delete ${path}`]]) {
        if (path === '.' && script[0] !== 'delete .') continue
        const { code } = await runToEnd(folders, script)
        expect([script[0], code]).toEqual([script[0], 1])
      }
    }
    const { lines } = await runToEnd(folders, ['artifact ../x', '  x'])
    expect(JSON.stringify(lines)).toContain('../x is not ')
    expect(readdirSync(folders.home)).toEqual(['.claude'])
    expect(readdirSync(folders.cwd).sort()).toEqual(['in', 'link', 'out'])
  }, 180_000)

  test('a command’s output is limited, and its background processes are killed', async () => {
    const folders = createAgentFolders()
    const { lines, code } = await runToEnd(folders, [
      'run sleep 300 & echo $! > pid; head -c 1000000 /dev/zero | tr "\\0" x; echo; echo end',
    ])
    expect(code).toBe(0)
    const text = String(message(lines.find(({ type }) => type === 'user') ?? { type: '' }).content[0].content)
    expect(text.length).toBeLessThan(70_000)
    expect(text.replace(/x+/g, 'x')).toMatch(/^x\n… \d+ bytes are left out …\nx\nend$/)
    const pid = Number(read(folders, 'pid'))
    await until('the background process is gone', () => !isAlive(pid))
  })

  test('a network check reports its result', async () => {
    const folders = createAgentFolders()
    const server = createServer((socket) => socket.end())
    await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve))
    const address = server.address()
    const port = typeof address === 'object' ? address?.port : 0
    const { lines, code } = await runToEnd(folders, [
      `ask-network 127.0.0.1:${port}`,
      'ask-network 127.0.0.1:1',
    ])
    await new Promise((resolve) => server.close(resolve))
    const texts = lines.filter(({ type }) => type === 'user').map((line) => message(line).content[0].content)
    expect([code, ...texts]).toEqual([0, 'reached', expect.stringContaining('refused: connect ECONNREFUSED')])
  })
})

describe('the output', () => {
  test('each kind of line has the fields that readers of agentA’s stream rely on', async () => {
    const { lines } = await runToEnd(
      createAgentFolders(),
      ['say a', 'run echo hi', 'subagent b', 'say c'],
      withSession,
    )
    const [init, ...rest] = lines
    expect(init).toMatchObject({
      type: 'system',
      subtype: 'init',
      session_id: SESSION,
      model: 'scripted-1',
      apiKeySource: 'none',
      scripted: true,
    })
    for (const line of lines) expect(line).toMatchObject({ session_id: SESSION, uuid: expect.any(String) })
    expect(new Set(lines.map(({ uuid }) => uuid)).size).toBe(lines.length)
    expect(rest.map(({ type, subtype = '' }) => `${type} ${subtype}`.trim())).toEqual([
      'assistant',
      'assistant',
      'user',
      'assistant',
      'system task_started',
      'assistant',
      'system task_notification',
      'user',
      'assistant',
      'result success',
    ])
    const [textMessage, used, , asked, nested] = assistants(lines).map(message)
    // Each block of a message has its own line, with the message's id and usage.
    expect(used).toEqual({ ...textMessage, content: used.content })
    expect(textMessage.content).toEqual([{ type: 'text', text: 'a' }])
    expect(used.content).toEqual([
      { type: 'tool_use', id: expect.any(String), name: 'Bash', input: { command: 'echo hi' } },
    ])
    const result = lines[3]
    expect(message(result ?? { type: '' }).content).toEqual([
      { tool_use_id: used.content[0].id, type: 'tool_result', content: 'hi', is_error: false },
    ])
    expect([asked.model, nested.model]).toEqual(['scripted-1-mini', 'scripted-1'])
  })

  test('usage sums agree in stream, result, transcript and subagents', async () => {
    const folders = createAgentFolders()
    const { result } = await runToEnd(
      folders,
      ['say a', 'run echo hi', 'subagent bb', 'subagent c', 'say d'],
      withSession,
    )
    const since = result.model_usage_since_last_result
    expect(Object.keys(Object(since))).toEqual(['scripted-1', 'scripted-1-mini'])
    expect(result.modelUsage).toEqual(since)
    expect(result.total_cost_usd).toBeCloseTo(sum(since, 'costUSD'), 12)
    const folder = transcriptOf(folders).replace('.jsonl', '/subagents')
    const agents = readdirSync(folder).filter((name) => name.endsWith('.jsonl'))
    expect(agents).toHaveLength(2)
    for (const name of agents) expect(name).toMatch(/^agent-a[0-9a-f]{16}\.jsonl$/)
    const kept = [
      ...readJsonLines(transcriptOf(folders)),
      ...agents.flatMap((name) => readJsonLines(join(folder, name))),
    ]
    const byId = new Map(
      kept.filter(({ type }) => type === 'assistant').map((line) => [message(line).id, message(line).usage]),
    )
    const inTranscript = [...byId.values()].reduce((total, usage) => total + usage.output_tokens, 0)
    expect(inTranscript).toBe(sum(since, 'outputTokens'))
    const main = Object(since)['scripted-1']
    expect(result.usage).toMatchObject({
      input_tokens: main.inputTokens,
      output_tokens: main.outputTokens,
      cache_read_input_tokens: main.cacheReadInputTokens,
      cache_creation_input_tokens: main.cacheCreationInputTokens,
    })
    for (const usage of Object.values(Object(since))) expect(usage).toMatchObject({ costBasis: 'unknown' })
    expect(statSync(transcriptOf(folders)).mode & 0o777).toBe(0o600)
  })

  test('the same script costs the same', async () => {
    const script = ['say a', 'run echo hi', 'say b']
    const [first, second] = [
      await runToEnd(createAgentFolders(), script),
      await runToEnd(createAgentFolders(), script),
    ]
    expect(first.result.modelUsage).toEqual(second.result.modelUsage)
  })

  test('a resumed session continues counting, and its id is in use', async () => {
    const folders = createAgentFolders()
    const first = await runToEnd(folders, ['say a'], withSession)
    const second = await runToEnd(folders, ['say b'], withResume)
    expect(second.code).toBe(0)
    expect(second.result.session_id).toBe(SESSION)
    expect(second.result.total_cost_usd).toBeCloseTo(
      Number(first.result.total_cost_usd) + sum(second.result.model_usage_since_last_result, 'costUSD'),
      12,
    )
    expect(sum(second.result.modelUsage, 'outputTokens')).toBeGreaterThan(
      sum(second.result.model_usage_since_last_result, 'outputTokens'),
    )
    const again = await runToEnd(folders, ['say c'], withSession)
    expect([again.code, again.out, again.err]).toEqual([
      1,
      [],
      `Error: Session ID ${SESSION} is already in use.\n`,
    ])
  })

  test('an unknown session is not resumed', async () => {
    const { code, lines } = await runToEnd(createAgentFolders(), ['say a'], withResume)
    expect(code).toBe(1)
    expect(lines).toEqual([
      expect.objectContaining({
        type: 'result',
        subtype: 'error_during_execution',
        is_error: true,
        num_turns: 0,
        errors: [expect.stringContaining(SESSION)],
      }),
    ])
  })

  test.each([
    [['-p', '--output-format', 'stream-json'], 'requires --verbose'],
    [[...HEADLESS, '--session-id', '../x'], '--session-id must be a UUID'],
    [[...HEADLESS, '--max-turns', 'many'], '--max-turns must be '],
  ])('%j is wrong use', async (args, words) => {
    const { code, err, out } = await runToEnd(createAgentFolders(), ['say a'], args)
    expect([code, out]).toEqual([1, []])
    expect(err).toContain(words)
  })

  test('unknown flags are ignored with their values', async () => {
    const args = [...HEADLESS, '--permission-mode', 'bypassPermissions', '--new-flag=x', '--effort', 'high']
    expect((await runToEnd(createAgentFolders(), ['say a'], args)).result.result).toBe('a')
  })
})

describe('the agent ends', () => {
  test('at the turn limit, before the next message', async () => {
    const folders = createAgentFolders()
    const { code, result } = await runToEnd(
      folders,
      ['write a', 'write b'],
      [...HEADLESS, '--max-turns', '1'],
    )
    expect(code).toBe(1)
    expect(result).toMatchObject({
      subtype: 'error_max_turns',
      terminal_reason: 'max_turns',
      num_turns: 2,
      errors: [expect.stringMatching(/\(1\)$/)],
    })
    expect(readdirSync(folders.cwd)).toEqual(['a'])
  })

  test('at the budget limit, before a tool runs', async () => {
    const folders = createAgentFolders()
    const { code, result } = await runToEnd(
      folders,
      ['write a'],
      [...HEADLESS, '--max-budget-usd', '0.000001'],
    )
    expect(code).toBe(1)
    expect(result).toMatchObject({ subtype: 'error_max_budget_usd', terminal_reason: 'budget_exhausted' })
    expect(sum(result.modelUsage, 'outputTokens')).toBeGreaterThan(0)
    expect(readdirSync(folders.cwd)).toEqual([])
  })

  test('at the usage limit, reported as agentA does', async () => {
    const before = Date.now() / 1000
    const { code, lines, result } = await runToEnd(createAgentFolders(), ['say a', 'limit 5'])
    expect(code).toBe(1)
    const event = lines.find(({ type }) => type === 'rate_limit_event')
    const info = Object(event?.rate_limit_info)
    expect(info).toMatchObject({ status: 'rejected', rateLimitType: 'five_hour' })
    expect(info.resetsAt - before).toBeGreaterThanOrEqual(300)
    expect(info.resetsAt - before).toBeLessThan(330)
    expect(lines.at(-2)).toMatchObject({
      error: 'rate_limit',
      api_error_status: 429,
      message: { model: '<synthetic>' },
    })
    expect(result).toMatchObject({
      is_error: true,
      subtype: 'success',
      api_error_status: 429,
      api_error: 'usage_limit_reached',
      terminal_reason: 'api_error',
      result: expect.stringContaining("You've hit your 5-hour limit"),
    })
  })

  test('with the text of a failure, by a crash, with a given exit code', async () => {
    expect((await runToEnd(createAgentFolders(), ['fail no luck'])).result).toMatchObject({
      errors: ['no luck'],
    })
    const crash = await runToEnd(createAgentFolders(), ['say a', 'crash'])
    expect([crash.code, crash.result.type]).toEqual(['SIGKILL', 'none'])
    expect((await runToEnd(createAgentFolders(), ['crash 7'])).code).toBe(7)
  })

  test('at once if the prompt has no block, and explains how to write one', async () => {
    const played = runScriptedAgent(createAgentFolders(), 'Please mend the gate.')
    expect(await played.ended).toBe(1)
    expect(String(Object(resultOf(played).errors)[0])).toContain('```switchyard\n')
  })

  test('at once if a block is invalid, and names the line', async () => {
    const { code, result } = await runToEnd(createAgentFolders(), ['say a', 'dance'])
    expect(code).toBe(1)
    expect(String(Object(result.errors)[0])).toMatch(/^line 2 of the switchyard block: "dance" is no step/)
  })

  test('after many lines that are not JSON', async () => {
    const { out, code } = await runToEnd(createAgentFolders(), ['spam 20000', 'say a'])
    expect(code).toBe(0)
    expect(out.filter((line) => line.startsWith('line '))).toHaveLength(20_000)
  })

  test.each([
    ['is done', ['spam 50000', 'say a'], 0],
    ['crashes', ['spam 50000', 'crash 7'], 7],
    ['is killed', ['spam 50000', 'crash'], 'SIGKILL'],
  ])('after a slow reader has received everything, before it %s', async (_, script, end) => {
    const played = runScriptedAgent(createAgentFolders(), promptOf(...script))
    const pause = () => {
      played.process.stdout.pause()
      setTimeout(() => played.process.stdout.resume(), 5)
    }
    played.process.stdout.on('data', pause)
    expect(await played.ended).toBe(end)
    expect(played.out().filter((line) => line.startsWith('line '))).toHaveLength(50_000)
    if (end === 0) expect(resultOf(played)).toMatchObject({ result: 'a', is_error: false })
  })

  test.each([
    ['waits', ['say a', 'wait 600']],
    ['hangs', ['say a', 'hang']],
    ['is in a command', ['say a', 'run sleep 600']],
    ['babbles', ['say a', 'spam 1000000']],
  ])('on SIGINT while it %s, and reports its cost and that it was interrupted', async (_, script) => {
    const played = runScriptedAgent(createAgentFolders(), promptOf(...script))
    await until(
      'the agent has printed a message',
      () => assistants(played.lines()).length > 0 && played.out().length > 1,
    )
    played.process.kill('SIGINT')
    expect(await played.ended).toBe(0)
    const [aborted, user, result] = played.lines().slice(-3)
    expect(aborted).toMatchObject({ type: 'assistant', aborted: true })
    expect(Object(user?.message).content).toEqual([
      { type: 'text', text: expect.stringMatching(/^\[.*interrupted.*\]$/) },
    ])
    expect(result).toMatchObject({ terminal_reason: 'aborted_streaming', is_error: true })
    expect(sum(result?.modelUsage, 'outputTokens')).toBeGreaterThan(0)
  })

  test('at once on SIGTERM, together with its commands', async () => {
    const folders = createAgentFolders()
    const played = runScriptedAgent(folders, promptOf('run echo $$ > pid; sleep 600'))
    await until('the command runs', () => existsSync(join(folders.cwd, 'pid')) && read(folders, 'pid') !== '')
    played.process.kill('SIGTERM')
    expect(await played.ended).toBe(143)
    expect(resultOf(played).type).toBe('none')
    await until('the command is gone', () => !isAlive(Number(read(folders, 'pid'))))
  })

  test('not on signals after `hang deaf`', async () => {
    const played = runScriptedAgent(createAgentFolders(), promptOf('say a', 'hang deaf'))
    await until('the agent has printed a message', () => assistants(played.lines()).length > 0)
    await new Promise((resolve) => setTimeout(resolve, 100))
    played.process.kill('SIGINT')
    played.process.kill('SIGTERM')
    await new Promise((resolve) => setTimeout(resolve, 200))
    expect(played.process.exitCode).toBeNull()
    played.process.kill('SIGKILL')
    expect(await played.ended).toBe('SIGKILL')
  })
})

describe('interactive mode', () => {
  test('shows the session, runs steps, answers, and leaves on /exit', async () => {
    const folders = createAgentFolders()
    await runToEnd(folders, ['say earlier words'], withSession)
    const kept = readJsonLines(transcriptOf(folders)).length
    const played = runScriptedAgent(folders, undefined, ['--resume', SESSION])
    played.process.stdin.write(
      'hello\nwrite a.txt <<END\nbody\nEND\nrun cat a.txt\nrun exit 3\nlimit\n/help\n/exit\n',
    )
    expect(await played.ended).toBe(0)
    const out = played.out().join('\n')
    expect(out).toContain(`session ${SESSION}`)
    expect(out).toContain('earlier words')
    expect(out).toContain('You said: hello')
    expect(out).toContain('body')
    expect(out).toContain('it went wrong: exit code 3')
    expect(out).toContain('limit is for scripts only')
    expect(out).toContain(`--resume ${SESSION}`)
    expect(readJsonLines(transcriptOf(folders)).length).toBeGreaterThan(kept)
    expect(read(folders, 'a.txt')).toBe('body\n')
  })

  test('leaves with a given exit code, and floods on request', async () => {
    const folders = createAgentFolders()
    const played = runScriptedAgent(folders, undefined, [])
    played.process.stdin.write('flood 640000\nexit 9\n')
    expect(await played.ended).toBe(9)
    const numbered = played.out().filter((line) => /^(?:> )?\d+ \.+$/.test(line))
    expect(numbered.map((line) => Number.parseInt(line.replace('> ', ''), 10))).toEqual(
      Array.from({ length: 10_000 }, (_, n) => n),
    )
    expect(played.out()).toContain('640000 bytes')
  })

  test('ends with its input', async () => {
    const played = runScriptedAgent(createAgentFolders(), '', [])
    expect(await played.ended).toBe(0)
  })
})

function isAlive(pid: number): boolean {
  try {
    process.kill(pid, 0)
    return true
  } catch {
    return false
  }
}
