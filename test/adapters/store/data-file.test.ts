/** Tests of inspecting real database files: new, grown, copied, compacted, with preallocated space, and truncated. */
import {
  closeSync,
  copyFileSync,
  mkdirSync,
  openSync,
  readFileSync,
  statSync,
  truncateSync,
  writeFileSync,
} from 'node:fs'
import { dirname, join } from 'node:path'
import { beforeAll, expect, test } from '@jest/globals'
import { open, type RootDatabase } from 'lmdb'
import { inspectDataFile } from '../../../store/lmdb/data-file.ts'
import { type PageFault, PageWalk } from '../../../store/lmdb/page-walk.ts'
import { diskFolder } from '../../support/temp-folder.ts'

const PAGE_BYTES = 4096
const META_BYTES = 2 * PAGE_BYTES
/** The position of the size of a page in a meta page. */
const PAGE_SIZE_AT = 48

interface SampleFile {
  readonly path: string
  /** The end of the last page, as LMDB itself reports it. */
  readonly bytesMin: number
}

const samples = new Map<string, SampleFile>()
const sampleNames = ['new', 'with a table', 'grown', 'copied', 'compacted', 'preallocated'] as const

const openRoot = (folder: string): RootDatabase =>
  open({ path: folder, noSubdir: false, maxDbs: 8, overlappingSync: false, encoding: 'binary' })

function endOf(root: RootDatabase): number {
  const { env } = root as unknown as { readonly env: { info(): { lastPageNumber: number } } }
  return (env.info().lastPageNumber + 1) * PAGE_BYTES
}

/** Keeps a copy of the file as it is now. */
function keep(name: (typeof sampleNames)[number], file: string, bytesMin: number): void {
  const path = join(diskFolder(), 'data.mdb')
  copyFileSync(file, path)
  samples.set(name, { path, bytesMin })
}

async function copyTo(root: RootDatabase, isCompact: boolean): Promise<string> {
  const folder = join(diskFolder(), 'copy')
  mkdirSync(folder)
  await root.backup(folder, isCompact)
  return join(folder, 'data.mdb')
}

async function endOfCopy(file: string): Promise<number> {
  const root = openRoot(dirname(file))
  const bytes = endOf(root)
  await root.close()
  return bytes
}

beforeAll(async () => {
  const folder = diskFolder()
  const file = join(folder, 'data.mdb')
  const root = openRoot(folder)
  keep('new', file, endOf(root))
  const table = root.openDB<Uint8Array, string>({ name: 'runs', encoding: 'binary' })
  keep('with a table', file, endOf(root))
  for (let round = 0; round < 20; round++)
    await Promise.all(
      Array.from({ length: 30 }, (_, n) =>
        (n + round) % 4 === 0 ? table.remove(`k${n}`) : table.put(`k${n}`, Buffer.alloc(n * 300 + round)),
      ),
    )
  keep('grown', file, endOf(root))
  const copied = await copyTo(root, false)
  keep('copied', copied, await endOfCopy(copied))
  const compacted = await copyTo(root, true)
  keep('compacted', compacted, await endOfCopy(compacted))
  keep('preallocated', file, endOf(root))
  await root.close()
  const { path, bytesMin } = sampleOf('preallocated')
  truncateSync(path, bytesMin + 1024 * 1024)
})

function sampleOf(name: string): SampleFile {
  const sample = samples.get(name)
  if (sample === undefined) throw new Error(`no sample ${name}`)
  return sample
}

function inspect(path: string) {
  const fd = openSync(path, 'r')
  try {
    return inspectDataFile(fd)
  } finally {
    closeSync(fd)
  }
}

test.each(sampleNames)('a file that is %s is whole, and so are all of its pages', (name) => {
  const { path, bytesMin } = sampleOf(name)
  expect(inspect(path)).toMatchObject({ is: 'whole' })
  expect(statSync(path).size).toBeGreaterThanOrEqual(bytesMin)
  expect(walk(path)).toEqual({ rows: name === 'new' || name === 'with a table' ? 0 : 22, faults: [] })
})

function walk(path: string): { rows: number; faults: PageFault[] } {
  const file = inspect(path)
  if (file.is !== 'whole') throw new Error(`the file is ${file.is}`)
  const fd = openSync(path, 'r')
  const faults: PageFault[] = []
  let rows = 0
  const visitor = {
    onTable: () => {},
    onRow: () => void rows++,
    onFault: (fault: PageFault) => void faults.push(fault),
    mayGoOn: () => true,
  }
  expect(new PageWalk(fd, file.meta, visitor).run()).toBe(true)
  closeSync(fd)
  return { rows, faults }
}

test.each(sampleNames)('a file that is %s is truncated when a byte of its last page is missing', (name) => {
  const { path, bytesMin } = sampleOf(name)
  const shortened = join(diskFolder(), 'data.mdb')
  copyFileSync(path, shortened)
  truncateSync(shortened, bytesMin)
  expect(inspect(shortened)).toMatchObject({ is: 'whole' })
  truncateSync(shortened, bytesMin - 1)
  expect(inspect(shortened)).toEqual({ is: 'truncated', bytes: bytesMin - 1, bytesMin })
  truncateSync(shortened, META_BYTES - 1)
  expect(inspect(shortened)).toMatchObject({ is: 'truncated', bytes: META_BYTES - 1 })
  truncateSync(shortened, 0)
  expect(inspect(shortened)).toEqual({ is: 'empty' })
})

test('a file of another program is unknown', () => {
  const path = join(diskFolder(), 'data.mdb')
  for (const text of ['x', 'x'.repeat(PAGE_BYTES * 4)]) {
    writeFileSync(path, text)
    expect(inspect(path)).toEqual({ is: 'unknown' })
  }
})

test.each([0, 100, 3 * 1024, 2 ** 31])(
  'a file whose first page names pages of %i bytes is not of LMDB',
  (bytes) => {
    const { path } = sampleOf('new')
    const damaged = join(diskFolder(), 'data.mdb')
    const content = readFileSync(path)
    content.writeUInt32LE(bytes, PAGE_SIZE_AT)
    writeFileSync(damaged, content)
    expect(inspect(damaged)).toEqual({ is: 'unknown' })
  },
)
