/** A note about finished work outlives a full disk, and one that cannot be read is not taken for none. */
import { execFileSync } from 'node:child_process'
import { mkdirSync, rmSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { expect, test } from '@jest/globals'
import { yes } from '../../../../core/result.ts'
import { SandboxNote } from '../../../../worker/run/execution/unpublished-work.ts'
import { testAsRoot } from '../../../support/skips.ts'
import { tempFolder } from '../../../support/temp-folder.ts'

const DISK_BYTES = 1024 * 1024

testAsRoot('a note is written on a full disk, as often as space was reserved', async () => {
  const staging = tempFolder()
  execFileSync('mount', ['-t', 'tmpfs', '-o', `size=${DISK_BYTES}`, 'none', staging])
  try {
    const note = new SandboxNote<{ summary: string }>('unpublished.json', { flush: true })
    const summary = 'Mended. '.repeat(2_000)
    await note.reserve({ staging })
    expect(() => writeFileSync(join(staging, 'filler'), Buffer.alloc(DISK_BYTES))).toThrow(/ENOSPC/)
    await note.save({ staging }, { summary })
    expect(await note.read({ staging })).toEqual(yes({ summary }))
    await expect(note.save({ staging }, { summary: 'Later.' })).rejects.toThrow(/ENOSPC/)
    expect(await note.read({ staging })).toEqual(yes({ summary }))
  } finally {
    execFileSync('umount', ['--lazy', staging])
  }
})

test('only a missing file is no note', async () => {
  const staging = tempFolder()
  const note = new SandboxNote('unpublished.json', { flush: true })
  expect(await note.read({ staging })).toEqual(yes(undefined))
  const path = join(staging, 'unpublished.json')
  const refused = { refusal: { message: expect.stringContaining(`${path}, cannot be read`) } }
  for (const text of ['', '{"summary": "a sec', 'null', '\0\0']) {
    writeFileSync(path, text)
    const read = await note.read({ staging })
    expect(read).toMatchObject(refused)
    expect(JSON.stringify(read)).not.toContain('a sec')
  }
  rmSync(path)
  mkdirSync(path)
  expect(await note.read({ staging })).toMatchObject(refused)
})
