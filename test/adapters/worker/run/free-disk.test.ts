/** Free disk space: a disk is full if its bytes or its inodes are used up. */
import { execFileSync } from 'node:child_process'
import { writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { expect } from '@jest/globals'
import { describeShortage, diskBytes, freeSpace } from '../../../../worker/run/disk/disk-space.ts'
import { testAsRoot } from '../../../support/skips.ts'
import { tempFolder } from '../../../support/temp-folder.ts'

const MIB = 1024 * 1024

async function withFileSystem(options: string, check: (folder: string) => Promise<void>): Promise<void> {
  const folder = tempFolder()
  execFileSync('mount', ['-t', 'tmpfs', '-o', options, 'none', folder])
  try {
    await check(folder)
  } finally {
    execFileSync('umount', [folder])
  }
}

testAsRoot('a file reduces the free space', async () => {
  await withFileSystem('size=8M,nr_inodes=20k', async (folder) => {
    expect((await freeSpace(folder)).bytes).toBe(8 * MIB)
    writeFileSync(join(folder, 'file'), Buffer.alloc(MIB))
    expect((await freeSpace(folder)).bytes).toBe(7 * MIB)
    expect(await diskBytes(folder)).toBe(8 * MIB)
  })
})

testAsRoot('a disk nearly without inodes counts as full, whatever its bytes', async () => {
  await withFileSystem('size=8M,nr_inodes=9k', async (folder) => {
    expect(describeShortage(await freeSpace(folder), MIB)).toMatch(/^room for \d+ files, a run needs 10000$/)
  })
})

testAsRoot('a file system that does not count inodes is judged by its bytes', async () => {
  await withFileSystem('size=8M,nr_inodes=0', async (folder) => {
    expect(await freeSpace(folder)).toEqual({ bytes: 8 * MIB, files: Number.POSITIVE_INFINITY })
    expect(describeShortage(await freeSpace(folder), 8 * MIB)).toBe(undefined)
    expect(describeShortage(await freeSpace(folder), 9 * MIB)).toBe('room for 8 MiB, a run needs 9')
  })
})
