/** A watched ticket folder: the files that are checked again, and when all of them are. */
import { renameSync, rmSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { expect, test } from '@jest/globals'
import { TicketFolder } from '../../../../providers/tracker/local/folder.ts'
import { ManualClock } from '../../../support/manual-clock.ts'
import { drawSeed, Random } from '../../../support/random.ts'
import { tempFolder } from '../../../support/temp-folder.ts'

const BELIEVED_MS_MAX = 30_000
const SETTLED_MS = 10_000

async function openFolder() {
  const path = tempFolder()
  const clock = new ManualClock(Date.now() + SETTLED_MS)
  const folder = new TicketFolder(path, clock, BELIEVED_MS_MAX)
  const write = (name: string, title: string) => {
    writeFileSync(join(path, 'draft'), `---\ntitle: ${title}\nstate: Todo\n---\n`)
    renameSync(join(path, 'draft'), join(path, name))
  }
  const titles = async (believesWatch = false) => {
    const read = await folder.readAll(believesWatch)
    return read.ok ? read.value.tickets.map(({ tracked }) => tracked.ticket.title) : read
  }
  write('a.md', 'A')
  write('b.md', 'B')
  folder.setWatched(true)
  expect(await titles()).toEqual(['A', 'B'])
  return { path, clock, folder, write, titles }
}

test('only the files that the watch has named are checked, until it has been believed for long', async () => {
  const { clock, folder, write, titles } = await openFolder()
  write('a.md', 'A changed')
  write('b.md', 'B changed')
  folder.onChange('a.md')
  expect(await titles()).toEqual(['A changed', 'B'])
  expect(await titles(true)).toEqual(['A changed', 'B'])
  await clock.advance(BELIEVED_MS_MAX)
  expect(await titles(true)).toEqual(['A changed', 'B changed'])
})

test('a poll for which nothing was named checks all files, because some file systems report no changes', async () => {
  const { write, titles } = await openFolder()
  write('b.md', 'B changed')
  expect(await titles(true)).toEqual(['A', 'B'])
  expect(await titles()).toEqual(['A', 'B changed'])
})

test('a watch that broke, or has ended, is not believed; files that come and go need no name', async () => {
  const { path, folder, write, titles } = await openFolder()
  write('b.md', 'B changed')
  folder.onChange(undefined)
  folder.onChange('a.md')
  expect(await titles(true)).toEqual(['A', 'B changed'])
  rmSync(join(path, 'a.md'))
  write('c.md', 'C')
  folder.onChange('x.md')
  expect(await titles()).toEqual(['B changed', 'C'])
  folder.setWatched(false)
  write('b.md', 'B again')
  expect(await titles(true)).toEqual(['B again', 'C'])
})

test('reads at once follow each other, so that a name is not lost between them', async () => {
  const { folder, write, titles } = await openFolder()
  write('a.md', 'A changed')
  folder.onChange('a.md')
  const [first, second] = await Promise.all([titles(), titles(true)])
  expect([first, second]).toEqual([
    ['A changed', 'B'],
    ['A changed', 'B'],
  ])
  expect(await titles(true)).toEqual(['A changed', 'B'])
})

test('while the watch names known files only, the folder is not listed', async () => {
  const { path, folder, write, titles } = await openFolder()
  write('a.md', 'A changed')
  write('c.md', 'C')
  folder.onChange('draft')
  folder.onChange('a.md')
  expect(await titles()).toEqual(['A changed', 'B'])
  folder.onChange('c.md')
  expect(await titles()).toEqual(['A changed', 'B', 'C'])
  rmSync(join(path, 'b.md'))
  folder.onChange('b.md')
  expect(await titles()).toEqual(['A changed', 'C'])
})

test('a read for a move leaves it to the next poll to believe the watch', async () => {
  const { folder, write, titles } = await openFolder()
  write('a.md', 'A changed')
  write('b.md', 'B changed')
  folder.onChange('a.md')
  expect(await titles(true)).toEqual(['A changed', 'B'])
  expect(await titles()).toEqual(['A changed', 'B'])
  expect(await titles()).toEqual(['A changed', 'B changed'])
})

test('a ticket whose file is unchanged keeps its object', async () => {
  const { folder, write } = await openFolder()
  const before = await folder.readAll(true)
  write('a.md', 'A changed')
  folder.onChange('a.md')
  const later = await folder.readAll()
  if (!before.ok || !later.ok) throw new Error('the folder was not read')
  expect(later.value.readCount).toBe(1)
  expect(later.value.tickets[0]).not.toBe(before.value.tickets[0])
  expect(later.value.tickets[1]).toBe(before.value.tickets[1])
})

test('a young file is read again, and a ticket that reads as before keeps its object', async () => {
  const path = tempFolder()
  const folder = new TicketFolder(path, new ManualClock(Date.now()), BELIEVED_MS_MAX)
  writeFileSync(join(path, 'a.md'), '---\ntitle: A\nstate: Todo\n---\n')
  const before = await folder.readAll()
  const later = await folder.readAll()
  if (!before.ok || !later.ok) throw new Error('the folder was not read')
  expect(later.value.readCount).toBe(1)
  expect(later.value.tickets[0]?.tracked).toBe(before.value.tickets[0]?.tracked)
})

test('young files are read again when the watch names them, and by a poll for which it named nothing', async () => {
  const path = tempFolder()
  const folder = new TicketFolder(path, new ManualClock(Date.now()), BELIEVED_MS_MAX)
  folder.setWatched(true)
  const write = (name: string) => writeFileSync(join(path, name), '---\ntitle: A\nstate: Todo\n---\n')
  const readCount = async () => {
    const read = await folder.readAll()
    return read.ok ? read.value.readCount : read
  }
  for (const name of ['a.md', 'b.md', 'c.md']) write(name)
  expect(await readCount()).toBe(3)
  folder.onChange('b.md')
  expect(await readCount()).toBe(1)
  write('d.md')
  folder.onChange('d.md')
  expect(await readCount()).toBe(1)
  expect(await readCount()).toBe(4)
})

test('after any named changes the contents are those of a folder that is read for the first time', async () => {
  const random = new Random(drawSeed())
  const { path, clock, folder } = await openFolder()
  for (let step = 0; step < 150; step++) {
    const name = `${random.pick(['a', 'b', 'c', 'd'])}.md`
    const id = random.pick(['', 'id: one\n', 'id: two\n'])
    const state = random.pick(['state: Todo\n', 'state: [\n'])
    if (random.chance(0.2)) rmSync(join(path, name), { force: true })
    else writeFileSync(join(path, name), `---\n${id}title: ${step}\n${state}---\n`)
    folder.onChange(name)
    const read = await folder.readAll(random.chance(0.5))
    const fresh = await new TicketFolder(path, clock, BELIEVED_MS_MAX).readAll()
    if (!read.ok || !fresh.ok) throw new Error('the folder was not read')
    const { readCount: _, ...contents } = read.value
    const { readCount: __, ...expected } = fresh.value
    expect({ seed: random.seed, step, ...contents }).toEqual({ seed: random.seed, step, ...expected })
  }
})
