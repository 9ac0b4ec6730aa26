/** A folder of Markdown files as a tracker, with real files and the habits of real editors. */
import { execFileSync } from 'node:child_process'
import {
  appendFileSync,
  chmodSync,
  linkSync,
  mkdirSync,
  readdirSync,
  readFileSync,
  renameSync,
  rmSync,
  statSync,
  symlinkSync,
  utimesSync,
  writeFileSync,
} from 'node:fs'
import { join } from 'node:path'
import { pathToFileURL } from 'node:url'
import { describe, expect, test } from '@jest/globals'
import { realClock } from '../../../../bin/process/clock.ts'
import type { Clock } from '../../../../core/ports/clock.ts'
import type { Tracker, TrackerListing } from '../../../../core/ports/tracker.ts'
import { configDefaults } from '../../../../protocol/config.ts'
import { TICKET_FILE_BYTES_MAX, TICKET_PROBLEMS_MAX } from '../../../../protocol/limits.ts'
import { createChecker } from '../../../../protocol/parse.ts'
import { TrackerProject } from '../../../../protocol/tracker.ts'
import type { ClientPool } from '../../../../providers/http/client-types.ts'
import { replaceIfUnchanged } from '../../../../providers/tracker/local/atomic-rewrite.ts'
import { createLocalTracker } from '../../../../providers/tracker/local/tracker.ts'
import { readWholeFile } from '../../../../providers/tracker/local/whole-file.ts'
import { createTracker } from '../../../../providers/tracker/registry.ts'
import { ManualClock, settlePromises } from '../../../support/manual-clock.ts'
import { createRecordingLog } from '../../../support/recording-log.ts'
import { tempFolder } from '../../../support/temp-folder.ts'
import { until } from '../../../support/until.ts'

const ALL = { rules: configDefaults.tracker.eligible, tickets: [] }

const fileOf = (state: string, ...lines: readonly string[]): string =>
  ['---', `state: ${state}`, ...lines, '---', 'Do it.', ''].join('\n')

interface LocalTrackerBench {
  readonly path: string
  readonly tracker: Tracker
  readonly log: ReturnType<typeof createRecordingLog>
  readonly put: (name: string, text: string | Uint8Array) => void
  readonly text: (name: string) => string
}

function openTracker(clock: Clock = realClock, path = tempFolder()): LocalTrackerBench {
  const log = createRecordingLog()
  return {
    path,
    log,
    tracker: createLocalTracker({ path, pollMs: 30_000, clock, log }),
    put: (name, text) => writeFileSync(join(path, name), text),
    text: (name) => readFileSync(join(path, name), 'utf8'),
  }
}

async function listTickets({ tracker }: Pick<LocalTrackerBench, 'tracker'>): Promise<TrackerListing> {
  const answer = await tracker.listTickets(ALL)
  if (!answer.ok) throw new Error(answer.refusal.message)
  return answer.value
}

async function idsOf(bench: Pick<LocalTrackerBench, 'tracker'>): Promise<string[]> {
  return (await listTickets(bench)).tickets.map(({ ticket }) => ticket.id)
}

test('a host that may not send any more changes and adds no file', async () => {
  const path = tempFolder()
  const options = { path, pollMs: 30_000, clock: realClock, log: createRecordingLog() }
  const tracker = createLocalTracker({ ...options, maySend: () => false })
  writeFileSync(join(path, 'ENG-1.md'), fileOf('Todo'))
  const refused = { ok: false, refusal: { kind: 'unavailable' } }
  expect(await tracker.moveTicket('ENG-1', 'Done')).toMatchObject(refused)
  const rules = configDefaults.tracker.eligible
  const lamp = {
    title: 'The lamp',
    description: '',
    priority: 3 as const,
    labels: [],
    repos: {},
    rules,
    isEligible: true,
  }
  expect(await tracker.createTicket?.(lamp)).toMatchObject(refused)
  expect(readdirSync(path)).toEqual(['ENG-1.md'])
  expect(readFileSync(join(path, 'ENG-1.md'), 'utf8')).toBe(fileOf('Todo'))
})

describe('reading', () => {
  test('each file is a ticket with the file’s address and times', async () => {
    const bench = openTracker()
    bench.put('ENG-1.md', fileOf('Todo', 'title: The lamp'))
    bench.put('ENG 2 é.md', fileOf('Done'))
    const when = new Date('2020-02-03T04:05:06.789Z')
    utimesSync(join(bench.path, 'ENG-1.md'), when, when)
    const { tickets, problems } = await listTickets(bench)
    expect(problems).toEqual([])
    expect(tickets.map(({ ticket, closed }) => [ticket.id, ticket.title, ticket.state, closed])).toEqual([
      ['ENG 2 é', 'ENG 2 é', 'Done', true],
      ['ENG-1', 'The lamp', 'Todo', false],
    ])
    expect(tickets[0]?.ticket.url).toBe(pathToFileURL(join(bench.path, 'ENG 2 é.md')).href)
    expect(tickets[1]?.ticket.updatedAt).toBe(when.toISOString())
    expect(tickets[1]?.ticket.createdAt).toBe(when.toISOString())
  })

  test('anything but regular visible Markdown files is ignored silently', async () => {
    const bench = openTracker()
    bench.put('good.md', fileOf('Todo'))
    for (const name of [
      '.hidden.md',
      '#a.md',
      'a~.md',
      'a.md~',
      '.a.md.swp',
      'notes.txt',
      'README.md',
      '4913',
    ]) {
      bench.put(name, 'nothing of ours')
    }
    mkdirSync(join(bench.path, 'folder.md'))
    symlinkSync(join(bench.path, 'good.md'), join(bench.path, 'link.md'))
    symlinkSync('/nowhere', join(bench.path, 'dangling.md'))
    execFileSync('mkfifo', [join(bench.path, 'pipe.md')])
    expect(await listTickets(bench)).toMatchObject({ tickets: [{ ticket: { id: 'good' } }], problems: [] })
  })

  test('an invalid file is reported, logged once, and affects no other', async () => {
    const bench = openTracker()
    bench.put('a.md', fileOf('Todo'))
    bench.put('b.md', fileOf('Todo', 'labels: bug'))
    bench.put('c.md', fileOf('Todo'))
    const problem = expect.stringMatching(/^b\.md, line 3: labels /)
    for (let polls = 0; polls < 2; polls++) {
      const { tickets, problems } = await listTickets(bench)
      expect(tickets.map(({ ticket }) => ticket.id)).toEqual(['a', 'c'])
      expect(problems).toEqual([problem])
    }
    expect(bench.log.lines.filter(({ level }) => level === 'warn').map(({ message }) => message)).toEqual([
      problem,
    ])
    bench.put('b.md', fileOf('Todo', 'labels: [bug]'))
    expect(await listTickets(bench)).toMatchObject({ tickets: { length: 3 }, problems: [] })
  })

  test('too large files and unprintable names are reported', async () => {
    const bench = openTracker()
    bench.put('large.md', `${fileOf('Todo')}${' '.repeat(TICKET_FILE_BYTES_MAX)}`)
    bench.put('full.md', fileOf('Todo').padEnd(TICKET_FILE_BYTES_MAX, '\n'))
    bench.put('a\nb.md', fileOf('Todo'))
    const { tickets, problems } = await listTickets(bench)
    expect(tickets.map(({ ticket }) => ticket.id)).toEqual(['full'])
    expect(problems).toEqual([
      expect.stringMatching(/^a\ufffdb\.md .* rename it$/),
      expect.stringMatching(new RegExp(`^large\\.md .* ${TICKET_FILE_BYTES_MAX} bytes`)),
    ])
  })

  test('the first of two files with one id is the ticket', async () => {
    const bench = openTracker()
    bench.put('b.md', fileOf('Todo', 'id: x'))
    bench.put('a.md', fileOf('Done', 'id: x'))
    expect(await listTickets(bench)).toMatchObject({
      tickets: [{ ticket: { id: 'x', state: 'Done' } }],
      problems: [expect.stringMatching(/^b\.md has the id x, as a\.md has/)],
    })
  })

  test('the list of problems is limited', async () => {
    const bench = openTracker()
    for (let n = 0; n < TICKET_PROBLEMS_MAX + 5; n++) bench.put(`${n}.md`, 'no')
    const { problems } = await listTickets(bench)
    expect(problems).toHaveLength(TICKET_PROBLEMS_MAX + 1)
    expect(problems.at(-1)).toMatch(/^5 more files /)
  })

  test('only changed files are read again', async () => {
    const clock = new ManualClock(Date.now() + 60_000)
    const bench = openTracker(clock)
    for (let n = 0; n < 600; n++) bench.put(`${String(n).padStart(3, '0')}.md`, fileOf('Todo'))
    const reads = () => bench.log.lines.flatMap(({ fields }) => ('read' in fields ? [fields.read] : []))
    expect(await idsOf(bench)).toHaveLength(600)
    expect(await idsOf(bench)).toHaveLength(600)
    expect(reads()).toEqual([600])
    bench.put('100.md', fileOf('Done'))
    rmSync(join(bench.path, '200.md'))
    renameSync(join(bench.path, '300.md'), join(bench.path, 'new.md'))
    const { tickets } = await listTickets(bench)
    expect(reads()).toEqual([600, 2])
    expect(tickets).toHaveLength(599)
    expect(tickets.filter(({ closed }) => closed).map(({ ticket }) => ticket.id)).toEqual(['100'])
  })

  test('a second write within the time resolution is not missed', async () => {
    const bench = openTracker()
    const path = join(bench.path, 'a.md')
    for (let n = 0; n < 30; n++) {
      bench.put('a.md', fileOf(`S${n % 10}a`))
      await listTickets(bench)
      bench.put('a.md', fileOf(`S${n % 10}b`))
      const { tickets } = await listTickets(bench)
      expect(tickets[0]?.ticket.state).toBe(`S${n % 10}b`)
    }
    expect(statSync(path).isFile()).toBe(true)
  })

  test('a missing folder is reported with its configuration key, until it exists', async () => {
    const path = join(tempFolder(), 'tickets')
    const bench = openTracker(realClock, path)
    expect(await bench.tracker.listTickets(ALL)).toMatchObject({
      refusal: {
        kind: 'invalid',
        message: expect.stringContaining(`tracker.path: ${path} does not exist`),
      },
    })
    expect(await bench.tracker.moveTicket('a', 'Done')).toMatchObject({ refusal: { kind: 'invalid' } })
    mkdirSync(path)
    expect(await idsOf(bench)).toEqual([])
    rmSync(path, { recursive: true })
    writeFileSync(path, '')
    expect(await bench.tracker.listTickets(ALL)).toMatchObject({
      refusal: { kind: 'invalid', message: expect.stringContaining('is not a folder') },
    })
  })

  test('while files are being saved, a ticket is read completely or reported as broken', async () => {
    const bench = openTracker()
    const versions = ['Todo', 'In Progress'].map((state) =>
      fileOf(state, `title: ${state} `.padEnd(5000, 'x')),
    )
    bench.put('still.md', fileOf('Todo'))
    let isSaving = true
    const saving = (async () => {
      for (let n = 0; isSaving; n++) {
        const text = versions[n % 2] ?? ''
        bench.put('.swap', text)
        renameSync(join(bench.path, '.swap'), join(bench.path, 'renamed.md'))
        bench.put('truncated.md', '')
        await settlePromises()
        for (let at = 0; at < text.length; at += 2000) {
          appendFileSync(join(bench.path, 'truncated.md'), text.slice(at, at + 2000))
          await settlePromises()
        }
      }
    })()
    try {
      for (let polls = 0; polls < 60; polls++) {
        const { tickets, problems } = await listTickets(bench)
        expect(tickets.map(({ ticket }) => ticket.id)).toContain('still')
        for (const { ticket } of tickets.filter(({ ticket: { id } }) => id !== 'still')) {
          expect(ticket.title.startsWith(ticket.state)).toBe(true)
        }
        for (const problem of problems) expect(problem).toMatch(/^truncated\.md(, line \d+:)? /)
      }
    } finally {
      isSaving = false
    }
    await saving
    expect(await idsOf(bench)).toEqual(['renamed', 'still', 'truncated'])
  })
})

describe('moving', () => {
  test('rewrites one line and keeps all other bytes and the mode', async () => {
    const bench = openTracker()
    const before = Buffer.from(
      '---\r\ntitle: é à\r\nstate: "Todo"  # soon\r\n---\r\n\r\nstate: Todo\r\n\ttext \r\n',
    )
    bench.put('a.md', before)
    chmodSync(join(bench.path, 'a.md'), 0o640)
    expect(await bench.tracker.moveTicket('a', 'In Progress')).toEqual({ ok: true, value: undefined })
    expect(bench.text('a.md')).toBe(before.toString().replace('"Todo"', 'In Progress'))
    expect(statSync(join(bench.path, 'a.md')).mode & 0o777).toBe(0o640)
    expect(readdirSync(bench.path)).toEqual(['a.md'])
    expect((await listTickets(bench)).tickets[0]?.ticket.state).toBe('In Progress')
  })

  test('a ticket that somebody moved elsewhere stays there', async () => {
    const bench = openTracker()
    bench.put('a.md', '---\nstate: Backlog\n---\nb')
    expect(await bench.tracker.moveTicket('a', 'In Progress', ['Todo'])).toMatchObject({
      refusal: { kind: 'gone' },
    })
    expect(bench.text('a.md')).toContain('state: Backlog')
    expect(await bench.tracker.moveTicket('a', 'In Progress', ['backlog'])).toMatchObject({ ok: true })
  })

  test('adds a missing state line', async () => {
    const bench = openTracker()
    bench.put('a.md', '---\ntitle: a\n---\nb')
    await bench.tracker.moveTicket('a', 'Done')
    expect(bench.text('a.md')).toBe('---\ntitle: a\nstate: Done\n---\nb')
  })

  test('a ticket that somebody closed meanwhile stays closed', async () => {
    const bench = openTracker()
    bench.put('a.md', fileOf('Canceled'))
    expect(await bench.tracker.moveTicket('a', 'In Review')).toMatchObject({
      refusal: { kind: 'gone', message: expect.stringContaining('moved to Canceled') },
    })
    expect(bench.text('a.md')).toBe(fileOf('Canceled'))
    expect(await bench.tracker.moveTicket('a', 'In Review', ['Canceled'])).toMatchObject({ ok: true })
  })

  test('a move to the current state writes nothing', async () => {
    const bench = openTracker()
    bench.put('a.md', fileOf('Todo'))
    const { ino } = statSync(join(bench.path, 'a.md'))
    expect(await bench.tracker.moveTicket('a', 'Todo')).toMatchObject({ ok: true })
    expect(statSync(join(bench.path, 'a.md')).ino).toBe(ino)
  })

  test('missing and unreadable tickets are unknown', async () => {
    const bench = openTracker()
    bench.put('bad.md', 'no')
    for (const id of ['nobody', 'bad', '../bad']) {
      expect(await bench.tracker.moveTicket(id, 'Done')).toMatchObject({ refusal: { kind: 'unknown' } })
    }
  })

  test('an impossible state is refused without a write', async () => {
    const bench = openTracker()
    bench.put('a.md', fileOf('Todo'))
    expect(await bench.tracker.moveTicket('a', 'x'.repeat(600))).toMatchObject({
      refusal: { kind: 'invalid' },
    })
    expect(bench.text('a.md')).toBe(fileOf('Todo'))
  })

  test('concurrent moves run one after the other', async () => {
    const bench = openTracker()
    bench.put('a.md', fileOf('Todo'))
    const answers = await Promise.all(
      Array.from({ length: 8 }, (_, n) => bench.tracker.moveTicket('a', `S${n}`)),
    )
    expect(answers.every(({ ok }) => ok)).toBe(true)
    expect(bench.text('a.md')).toBe(fileOf('S7'))
  })

  test('a file that changed meanwhile stays unchanged', async () => {
    const bench = openTracker()
    const path = join(bench.path, 'a.md')
    const whole = async () => {
      const file = await readWholeFile(path)
      if (file === undefined) throw new Error('no file')
      return file
    }
    bench.put('a.md', 'one')
    const seen = await whole()
    bench.put('a.md', 'two')
    expect(await replaceIfUnchanged(path, seen, Buffer.from('ours'))).toBe(false)
    bench.put('b.md', 'one')
    renameSync(join(bench.path, 'b.md'), path)
    expect(await replaceIfUnchanged(path, seen, Buffer.from('ours'))).toBe(false)
    const latest = await whole()
    rmSync(path)
    expect(await replaceIfUnchanged(path, latest, Buffer.from('ours'))).toBe(false)
    expect(readdirSync(bench.path)).toEqual([])
  })

  test('with an editor that saves continuously, each move succeeds or is refused, and no save is lost', async () => {
    const bench = openTracker()
    bench.put('a.md', fileOf('Todo', 'x-save: 0'))
    let saves = 0
    let isSaving = true
    const saving = (async () => {
      while (isSaving) {
        const now = bench.text('a.md')
        saves += 1
        bench.put('.swap', now.replace(/x-save: \d+/, `x-save: ${saves}`))
        renameSync(join(bench.path, '.swap'), join(bench.path, 'a.md'))
        await new Promise((resolve) => setTimeout(resolve, saves % 3))
      }
    })()
    const kinds = new Set<string>()
    try {
      for (let n = 0; n < 40; n++) {
        const answer = await bench.tracker.moveTicket('a', `S${n}`)
        kinds.add(answer.ok ? 'made' : answer.refusal.kind)
        expect(bench.text('a.md')).toContain(`x-save: ${saves}\n`)
        if (answer.ok) expect(bench.text('a.md')).toContain(`state: S${n}\n`)
      }
    } finally {
      isSaving = false
    }
    await saving
    expect(['made', 'conflict']).toEqual(expect.arrayContaining([...kinds]))
    expect(await bench.tracker.moveTicket('a', 'Done')).toMatchObject({ ok: true })
    expect(bench.text('a.md')).toBe(fileOf('Done', `x-save: ${saves}`))
  })

  test('only old drafts of a crash are removed', async () => {
    const bench = openTracker()
    bench.put('a.md', fileOf('Todo'))
    const [old, young, foreign] = ['.switchyard-1-0.draft', '.switchyard-1-1.draft', '.other.draft'] as const
    for (const name of [old, young, foreign]) bench.put(name, 'half')
    const hourAgo = new Date(Date.now() - 3_600_000)
    for (const name of [old, foreign]) utimesSync(join(bench.path, name), hourAgo, hourAgo)
    expect(await bench.tracker.moveTicket('a', 'Done')).toMatchObject({ ok: true })
    expect(readdirSync(bench.path).sort()).toEqual([foreign, young, 'a.md'])
  })

  test('another hard link keeps the old content', async () => {
    const bench = openTracker()
    bench.put('a.md', fileOf('Todo'))
    linkSync(join(bench.path, 'a.md'), join(bench.path, 'copy.txt'))
    await bench.tracker.moveTicket('a', 'Done')
    expect(bench.text('copy.txt')).toBe(fileOf('Todo'))
  })
})

describe('projects and other tickets', () => {
  test('projects are those that tickets name, each once and sorted', async () => {
    const bench = openTracker()
    expect(await bench.tracker.projects()).toEqual({ ok: true, value: [] })
    for (const [name, project] of [
      ['a', 'Lamps'],
      ['b', 'Desks'],
      ['c', 'Lamps'],
      ['d', 'Éclairs'],
    ] as const) {
      bench.put(`${name}.md`, fileOf('Todo', `project: ${project}`))
    }
    bench.put('e.md', fileOf('Todo'))
    bench.put('broken.md', 'no')
    const projects = await bench.tracker.projects()
    expect(projects).toEqual({
      ok: true,
      value: ['Desks', 'Éclairs', 'Lamps'].map((name) => ({ id: name, name, teams: [] })),
    })
    for (const project of projects.ok ? projects.value : []) {
      expect(createChecker(TrackerProject)(project)).toMatchObject({ ok: true })
    }
  })

  test('a missing folder refuses projects as it refuses reads', async () => {
    const bench = openTracker(realClock, join(tempFolder(), 'tickets'))
    expect(await bench.tracker.projects()).toMatchObject({ refusal: { kind: 'invalid' } })
  })

  test('pull requests are not linked, because only states are written to files', () => {
    expect(openTracker().tracker.linkPull).toBeUndefined()
  })

  test('a requested ticket is listed in any state, and missing once its file is gone', async () => {
    const bench = openTracker()
    bench.put('a.md', fileOf('Done'))
    bench.put('b.md', fileOf('Todo'))
    const query = { rules: { ...ALL.rules, states: ['Todo'] }, tickets: ['a', 'gone'] }
    expect(await bench.tracker.listTickets(query)).toMatchObject({
      value: {
        tickets: [{ ticket: { id: 'a', state: 'Done' }, closed: true }, { ticket: { id: 'b' } }],
        problems: [],
      },
    })
    rmSync(join(bench.path, 'a.md'))
    expect(await bench.tracker.listTickets(query)).toMatchObject({
      value: { tickets: [{ ticket: { id: 'b' } }], problems: [] },
    })
    expect(await bench.tracker.moveTicket('a', 'Todo')).toMatchObject({ refusal: { kind: 'unknown' } })
  })

  test('a ticket with a broken file is reported and not moved, until the file is repaired', async () => {
    const bench = openTracker()
    bench.put('a.md', fileOf('Todo'))
    await listTickets(bench)
    const broken = '---\nstate: [Todo\n---\n'
    bench.put('a.md', broken)
    expect(await listTickets(bench)).toMatchObject({
      tickets: [],
      problems: [expect.stringContaining('a.md, line 2')],
    })
    expect(await bench.tracker.moveTicket('a', 'Done')).toMatchObject({ refusal: { kind: 'unknown' } })
    expect(bench.text('a.md')).toBe(broken)
    bench.put('a.md', fileOf('Todo'))
    expect(await bench.tracker.moveTicket('a', 'Done')).toMatchObject({ ok: true })
    expect(await listTickets(bench)).toMatchObject({ tickets: [{ ticket: { state: 'Done' } }], problems: [] })
  })
})

describe('watching', () => {
  /** Polls the folder twenty times as often, so that tests need not wait. */
  const hasty: Clock = { ...realClock, after: (ms, run) => realClock.after(ms / 20, run) }

  /** A save causes several events, some of them late: waits until three turns of the loop bring none. */
  async function quiet(count: () => number): Promise<void> {
    for (let turns = 0, before = -1; turns < 3; turns++) {
      if (count() !== before) turns = 0
      before = count()
      await settlePromises()
    }
  }

  /** Acts, and waits until the watcher reports it. */
  async function waitForReport(count: () => number, what: string, act: () => void): Promise<void> {
    const before = count()
    act()
    await until(`a report of ${what}`, () => count() > before)
  }

  test('reports created, written, renamed and removed files', async () => {
    const bench = openTracker()
    let changes = 0
    const stop = bench.tracker.watch(() => changes++)
    const count = () => changes
    await waitForReport(count, 'a new file', () => bench.put('a.md', fileOf('Todo')))
    await waitForReport(count, 'an edit', () => bench.put('a.md', fileOf('Done')))
    await waitForReport(count, 'a rename', () =>
      renameSync(join(bench.path, 'a.md'), join(bench.path, 'b.md')),
    )
    await waitForReport(count, 'another edit', () => appendFileSync(join(bench.path, 'b.md'), 'more'))
    await waitForReport(count, 'the removal', () => rmSync(join(bench.path, 'b.md')))
    stop()
  })

  test('reports a burst once, and continuous changes now and then', async () => {
    const clock = new ManualClock()
    let reported = 0
    const after: Clock['after'] = (ms, run) => {
      if (ms <= 50) reported += 1
      return clock.after(ms, run)
    }
    const bench = openTracker({
      now: clock.now,
      monotonic: clock.monotonic,
      endOfTick: clock.endOfTick,
      after,
    })
    let changes = 0
    const stop = bench.tracker.watch(() => changes++)
    const save = async () => {
      const before = reported
      bench.put('a.md', fileOf('Todo'))
      await until('an event', () => reported > before)
      await quiet(() => reported)
    }
    await save()
    await clock.advance(40)
    await save()
    await clock.advance(49)
    expect(changes).toBe(0)
    await clock.advance(1)
    expect(changes).toBe(1)
    for (let ms = 0; ms < 600; ms += 40) {
      await save()
      await clock.advance(40)
    }
    expect(changes).toBe(2)
    stop()
    expect(clock.timers).toBe(0)
  })

  test('a folder that appears, vanishes and is replaced is watched each time', async () => {
    const path = join(tempFolder(), 'tickets')
    const bench = openTracker(hasty, path)
    let changes = 0
    const stop = bench.tracker.watch(() => changes++)
    const count = () => changes
    await waitForReport(count, 'the folder', () => mkdirSync(path))
    await waitForReport(count, 'a file', () => bench.put('a.md', fileOf('Todo')))
    await waitForReport(count, 'the removal of the folder', () => renameSync(path, `${path}-old`))
    await waitForReport(count, 'the new folder', () => mkdirSync(path))
    await waitForReport(count, 'a file in it', () => bench.put('b.md', fileOf('Todo')))
    expect(await idsOf(bench)).toEqual(['b'])
    await waitForReport(count, 'the folder being replaced at once', () => {
      rmSync(path, { recursive: true })
      mkdirSync(path)
      bench.put('c.md', fileOf('Todo'))
    })
    await until('the new folder', async () => (await idsOf(bench)).join() === 'c')
    await waitForReport(count, 'a file in the new folder', () => bench.put('d.md', fileOf('Todo')))
    stop()
  })

  test('a path that is a file is polled until it is a folder', async () => {
    const path = join(tempFolder(), 'tickets')
    writeFileSync(path, '')
    const bench = openTracker(hasty, path)
    let changes = 0
    const stop = bench.tracker.watch(() => changes++)
    await waitForReport(
      () => changes,
      'the folder',
      () => {
        rmSync(path)
        mkdirSync(path)
      },
    )
    stop()
  })

  test('reports nothing after it was stopped', async () => {
    const clock = new ManualClock()
    const bench = openTracker(clock)
    let changes = 0
    bench.tracker.watch(() => changes++)()
    bench.put('a.md', fileOf('Todo'))
    await clock.advance(10_000)
    expect([changes, clock.timers]).toEqual([0, 0])
  })
})

test('the tracker is the configured one, or none', () => {
  const clients: ClientPool = {
    clientFor: () => {
      throw new Error('a folder needs no client')
    },
  }
  const ports = { clock: new ManualClock(), log: createRecordingLog(), clients }
  const tracker = (part: object) =>
    createTracker({ ...configDefaults, tracker: { ...configDefaults.tracker, ...part } }, ports)
  expect(tracker({})).toBeUndefined()
  expect(tracker({ driver: 'local' })).toBeUndefined()
  expect(tracker({ path: '/tmp' })).toBeUndefined()
  expect(tracker({ driver: 'local', path: '/tmp' })).toBeDefined()
})
