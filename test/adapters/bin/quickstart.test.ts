/** The parts of the quickstart: its repository, its tickets, its folder and its output. */
import { execFileSync } from 'node:child_process'
import { chmodSync, mkdirSync, readdirSync, readFileSync, statSync, writeFileSync } from 'node:fs'
import { dirname, join } from 'node:path'
import { describe, expect, test } from '@jest/globals'
import { createColors } from '../../../bin/output/colors.ts'
import { replaceControls } from '../../../bin/output/text-width.ts'
import { EXIT } from '../../../bin/process/exit.ts'
import { programWords } from '../../../bin/process/this-program.ts'
import { exampleFolder, prepareFolder, writeTickets } from '../../../bin/programs/quickstart/data-folder.ts'
import {
  describeFailure,
  describeResult,
  isPublished,
  ProgressOutput,
} from '../../../bin/programs/quickstart/progress-output.ts'
import {
  bareRepositoryPath,
  createSampleRepository,
  diffOfBranch,
  readBaseFile,
} from '../../../bin/programs/quickstart/sample-repository.ts'
import { type ExampleTicket, nextTickets, ticketFile } from '../../../bin/programs/quickstart/tickets.ts'
import { readConfig } from '../../../core/settings/read.ts'
import { parsePrompt } from '../../../examples/scripted-agent/program/script.ts'
import type { Run, RunEvent } from '../../../protocol/run.ts'
import { readTicket } from '../../../providers/tracker/local/ticket-file.ts'
import { git } from '../../support/git.ts'
import { createAgentFolders, HEADLESS, runScriptedAgent } from '../../support/scripted-agent.ts'
import { tempFolder } from '../../support/temp-folder.ts'

const plain = createColors({}, {})

test('printed command lines can be run, also from a checkout in any folder', () => {
  const program = join(tempFolder(), "it's mine", 'switchyard.js')
  mkdirSync(dirname(program))
  writeFileSync(program, 'console.log(process.argv.slice(2).join(" "))')
  const words = programWords({ file: program, env: {}, cwd: undefined })
  expect(execFileSync('sh', ['-c', [...words, 'serve'].join(' ')]).toString()).toBe('serve\n')
})

test.each([
  ['/usr/bin/switchyard', { PATH: '/bin:/usr/bin' }, 'switchyard'],
  ['/opt/sy/bin/switchyard', { PATH: '/bin:/usr/bin' }, '/opt/sy/bin/switchyard'],
  ['/home/ada/web/node_modules/.bin/switchyard', { npm_command: 'exec' }, 'npx switchyard'],
  ['/home/ada/web/node_modules/.bin/switchyard', {}, 'node_modules/.bin/switchyard'],
  ['/home/ada/web/dist/bin/switchyard.js', {}, 'node dist/bin/switchyard.js'],
  ['/srv/other/dist/bin/switchyard.js', {}, 'node /srv/other/dist/bin/switchyard.js'],
])('%s was started by %j as %s', (file, env, words) => {
  expect(programWords({ file, env, cwd: '/home/ada/web' }).join(' ')).toBe(words)
})

describe('the repository', () => {
  test('is the same everywhere, and is created once', async () => {
    const [folder, secondFolder] = [tempFolder(), tempFolder()]
    await Promise.all([createSampleRepository(folder), createSampleRepository(secondFolder)])
    const head = git(bareRepositoryPath(folder), 'rev-parse', 'main')
    expect(git(bareRepositoryPath(secondFolder), 'rev-parse', 'main')).toBe(head)
    expect(Number(git(bareRepositoryPath(folder), 'rev-list', '--count', 'main'))).toBeGreaterThan(1)
    git(bareRepositoryPath(folder), 'branch', 'somebody')
    await createSampleRepository(folder)
    expect(git(bareRepositoryPath(folder), 'branch', '--list', 'somebody')).toBe('somebody')
    expect(readdirSync(join(folder, 'acme'))).toEqual(['greeter.git'])
  })

  test('its own tests pass', async () => {
    const folder = tempFolder()
    await createSampleRepository(folder)
    git(folder, 'clone', '--quiet', bareRepositoryPath(folder), 'clone')
    execFileSync(process.execPath, ['--test'], {
      cwd: join(folder, 'clone'),
      env: { PATH: process.env.PATH },
    })
  })
})

/** Executes a ticket in a clone, like a run, and pushes its branch to the repository. */
async function executeTicket(code: string, { identifier, text }: ExampleTicket): Promise<void> {
  const folders = createAgentFolders()
  git(folders.cwd, 'clone', '--quiet', bareRepositoryPath(code), '.')
  git(folders.cwd, 'checkout', '--quiet', '-b', identifier)
  const played = runScriptedAgent(folders, `Instructions.\n\n${text}\n\nNotes.`, HEADLESS)
  const code_ = await played.ended
  const last = played.lines().at(-1)
  expect([identifier, code_, last?.errors]).toEqual([identifier, 0, undefined])
  expect(git(folders.cwd, 'status', '--porcelain')).toBe('')
  git(folders.cwd, 'push', '--quiet', 'origin', identifier)
}

describe('the tickets', () => {
  // There are more rounds than mistakes.
  test.each([['merged', true, 6] as const, ['left open', false, 2] as const])(
    'each can be carried out, also when the earlier ones were %s',
    async (_, isMerged, rounds) => {
      const code = tempFolder()
      await createSampleRepository(code)
      const known: string[] = []
      for (let round = 0; round < rounds; round += 1) {
        const tickets = await nextTickets(known, (path) => readBaseFile(code, path))
        expect(tickets.map(({ identifier }) => identifier)).toEqual(
          [1, 2, 3].map((n) => `GREET-${3 * round + n}`),
        )
        known.push(...tickets.map(({ identifier }) => `${identifier}.md`))
        await Promise.all(tickets.map((ticket) => executeTicket(code, ticket)))
        for (const { identifier } of tickets) {
          expect((await diffOfBranch(code, identifier)).startsWith('diff --git')).toBe(true)
          if (isMerged) merge(code, identifier)
        }
      }
    },
    120_000,
  )

  test('each is a ready ticket with a valid block', async () => {
    for (const ticket of await nextTickets(['README.md', 'GREET-x.md'], async () => undefined)) {
      const facts = { name: `${ticket.identifier}.md`, url: '', createdAt: AT, updatedAt: AT }
      const read = readTicket(Buffer.from(ticketFile(ticket)), facts)
      expect(read).toMatchObject({ ok: true, tracked: { ticket: { state: 'Todo', title: ticket.title } } })
      expect(parsePrompt(ticket.text).is).toBe('script')
    }
  })
})

/** Merges like the button of a pull request. */
function merge(code: string, branch: string): void {
  const clone = tempFolder()
  git(clone, 'clone', '--quiet', bareRepositoryPath(code), '.')
  git(clone, 'merge', '--quiet', '--no-ff', '-m', `Merge ${branch}`, `origin/${branch}`)
  git(clone, 'push', '--quiet', 'origin', 'main')
}

describe('the folder', () => {
  test('gets a valid configuration once, and is owner-only', async () => {
    const place = exampleFolder(join(tempFolder(), 'data'))
    await prepareFolder(place)
    const text = readFileSync(place.config, 'utf8')
    expect(readConfig(text)).toMatchObject({ ok: true, value: { effective: { server: { port: 0 } } } })
    for (const path of [place.dataDir, place.tickets, place.code])
      expect(statSync(path).mode & 0o777).toBe(0o700)
    expect(statSync(place.config).mode & 0o777).toBe(0o600)
    const edited = text.replace('"port": 0', '"port": 4455')
    writeFileSync(place.config, edited)
    await prepareFolder(place)
    expect(readFileSync(place.config, 'utf8')).toBe(edited)
  })

  test.each([
    ['another tracker', '{"tracker": {"driver": "linear"}}', 'is not the example'],
    ['nonsense', '{', 'does not validate'],
  ])('with %s is not changed', async (_, text, message) => {
    const place = exampleFolder(tempFolder())
    chmodSync(place.dataDir, 0o755)
    writeFileSync(place.config, text)
    await expect(prepareFolder(place)).rejects.toMatchObject({
      code: EXIT.config,
      message: expect.stringContaining(message),
    })
    expect(readdirSync(place.dataDir)).toEqual(['config.json'])
    expect(statSync(place.dataDir).mode & 0o777).toBe(0o755)
  })

  test('of somebody else is left unchanged', async () => {
    const place = exampleFolder(tempFolder())
    chmodSync(place.dataDir, 0o755)
    writeFileSync(join(place.dataDir, 'thesis.txt'), '')
    await expect(prepareFolder(place)).rejects.toMatchObject({
      code: EXIT.usage,
      message: expect.stringContaining('name an empty or new folder as --data-dir'),
    })
    expect(readdirSync(place.dataDir)).toEqual(['thesis.txt'])
    expect(statSync(place.dataDir).mode & 0o777).toBe(0o755)
  })

  test('tickets are announced before their files exist, and continue the numbers', async () => {
    const place = exampleFolder(tempFolder())
    await prepareFolder(place)
    writeFileSync(join(place.tickets, 'GREET-7.md'), '')
    mkdirSync(join(place.tickets, 'old'))
    let before: string[] = []
    await writeTickets(place, () => {
      before = readdirSync(place.tickets)
    })
    expect(before).toEqual(['GREET-7.md', 'old'])
    expect(readdirSync(place.tickets).sort()).toEqual([
      'GREET-10.md',
      'GREET-7.md',
      'GREET-8.md',
      'GREET-9.md',
      'old',
    ])
  })
})

const AT = '2026-01-31T12:00:00.000Z'

function runOf(identifier: string, more: Partial<Run> = {}): Run {
  const ticket = {
    id: identifier,
    identifier,
    title: 'Mend the gate',
    description: '',
    url: '',
    state: 'Todo',
    priority: 0 as const,
    labels: [],
    blockedBy: [],
    createdAt: AT,
    updatedAt: AT,
  }
  return { id: `run-${identifier}`, ticket, status: 'queued', sandbox: {}, createdAt: AT, costs: [], ...more }
}

const done: Partial<Run> = {
  status: 'completed',
  prUrl: 'file:///code/acme/greeter.pulls/1.json',
  prState: 'open',
  result: { branch: 'switchyard/greet-1', summary: 'Mended.\nAll of it.', artifacts: ['r.md'] },
  costTotals: {
    inputTokens: 10,
    outputTokens: 5,
    cacheReadTokens: 100,
    cacheWriteTokens: 1,
    costUsd: 0.00321,
    estimated: true,
    byModel: [],
  },
}

describe('the output', () => {
  test('has a line for each change of its own runs', () => {
    const progress = new ProgressOutput()
    progress.setTickets(['GREET-1', 'GREET-2'])
    const updates = [
      runOf('OTHER-1'),
      runOf('GREET-1', { queueReason: 'no workers connected' }),
      runOf('GREET-1', { queueReason: 'no workers connected' }),
      runOf('GREET-1', { status: 'preparing' }),
      runOf('GREET-2', { status: 'failed', error: 'no\u001b[2J luck' }),
      runOf('GREET-1', done),
    ].map((run, at) => [progress.onRunUpdate(run, at * 1500)?.text, progress.isOver()])
    expect(updates).toEqual([
      [undefined, false],
      [' 1.5s GREET-1  queued: no workers connected', false],
      [undefined, false],
      [' 4.5s GREET-1  preparing', false],
      [' 6.0s GREET-2  failed: no?[2J luck', false],
      [expect.stringMatching(/^ 7\.5s GREET-1 {2}completed, /), true],
    ])
    expect(progress.runs().map(isPublished)).toEqual([true, false])
    expect(progress.describeState()).toMatch(
      /^ {2}GREET-1: completed, .*\n {2}GREET-2: failed: no\?\[2J luck$/,
    )
  })

  test('describes the result of a run', () => {
    const diff = 'diff --git a/x b/x\n@@ -1 +1 @@\n-old\n+new\n'
    expect(describeResult(runOf('GREET-1', done), diff, plain)).toBe(
      [
        'GREET-1  Mend the gate',
        '  summary       Mended. All of it.',
        '  cost          ~$0.0032',
        '  pull request  file:///code/acme/greeter.pulls/1.json, 1 file, +1 -1',
        '  artifacts     r.md',
        '  x',
        '  -old',
        '  +new',
      ].join('\n'),
    )
    const long = Array.from({ length: 1_000 }, (_, n) => `+${n}`).join('\n')
    expect(describeResult(runOf('GREET-1', done), long, plain)).toMatch(/… 976 more lines$/)
  })

  test('describes a failure with the end of its log', () => {
    const stored = { runId: 'run-1', at: AT }
    const events: RunEvent[] = [
      { ...stored, index: 0, type: 'log', stream: 'stderr', text: 'a complaint' },
      {
        ...stored,
        index: 1,
        type: 'agent',
        provider: 'agentA',
        message: {
          message: { content: [{ type: 'text', text: 'I try.' }, { name: 'Bash' }, { content: 'no' }, 7] },
        },
      },
      { ...stored, index: 2, type: 'agent', provider: 'agentA', message: { message: 'odd' } },
    ]
    expect(describeFailure(runOf('GREET-1', { status: 'failed', error: 'it broke' }), events, plain)).toBe(
      [
        'GREET-1 failed: it broke',
        '  the end of its log:',
        '    a complaint',
        '    I try.',
        '    uses Bash',
        '    no',
      ].join('\n'),
    )
    expect(describeFailure(runOf('GREET-1', { status: 'completed' }), [], plain)).toMatch(
      /^GREET-1 completed: .*pull request/,
    )
  })

  test('contains no control characters of foreign text', () => {
    expect(replaceControls('a\u001b]0;title\u0007\r\nb\tc\u202e\u0000')).toBe('a?]0;title?\nb\tc??')
  })
})
