/** A note about finished work has its place on the disk before the agent begins, so a disk that fills up loses no work. */
import { execFileSync } from 'node:child_process'
import { writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { expect } from '@jest/globals'
import { SandboxNote } from '../../../../worker/run/sandbox-note.ts'
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
    expect(await note.read({ staging })).toEqual({ summary })
    await expect(note.save({ staging }, { summary: 'Later.' })).rejects.toThrow(/ENOSPC/)
    expect(await note.read({ staging })).toEqual({ summary })
  } finally {
    execFileSync('umount', ['--lazy', staging])
  }
})
