/** A watched ticket folder: the files that are checked again, and when all of them are. */
import { renameSync, rmSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { expect, test } from '@jest/globals'
import { TicketFolder } from '../../../../providers/tracker/local/folder.ts'
import { ManualClock } from '../../../support/manual-clock.ts'
import { tempFolder } from '../../../support/temp-folder.ts'

const BELIEVED_MS_MAX = 30_000
const SETTLED_MS = 10_000

async function openFolder() {
  const path = tempFolder()
  const clock = new ManualClock(Date.now() + SETTLED_MS)
  const folder = new TicketFolder(path, clock)
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
