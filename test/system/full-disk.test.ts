/** A worker whose disk is full of retained sandboxes still executes runs. Real processes, on a small file system. */
import { execFileSync } from 'node:child_process'
import { existsSync } from 'node:fs'
import { expect } from '@jest/globals'
import { LocalSystem } from '../support/local-system.ts'
import { testAsRoot } from '../support/skips.ts'
import { tempFolder } from '../support/temp-folder.ts'

/** Enough for one run beside the sandbox of the first, but not for the GiB that a dispatch needs. */
const DISK = 'size=1400M'
const FILLER_BYTES = 600_000_000

testAsRoot(
  'a run is executed although retained sandboxes fill the disk',
  async () => {
    const sandboxDir = tempFolder()
    execFileSync('mount', ['-t', 'tmpfs', '-o', `${DISK},mode=755`, 'none', sandboxDir])
    // Without a quota a share of this small disk counts as one, and nothing is left for a full disk.
    const system = await LocalSystem.open({ sandbox: { diskQuotaGib: 100 } })
    const worker = await system.pairWorker(['--sandbox-dir', sandboxDir])
    try {
      system.writeTicket('ENG-1', [`run head -c ${FILLER_BYTES} /dev/zero > "$HOME/filler"`, 'say Done.'])
      const first = await system.waitForEnd('ENG-1')
      expect([first.status, first.error]).toEqual(['completed', undefined])
      expect(existsSync(retainedFolder(sandboxDir, first.id))).toBe(true)
      system.writeTicket('ENG-2', ['write a.txt', '  a', 'commit Add a', 'say Done.'])
      const second = await system.waitForEnd('ENG-2')
      expect([second.status, second.error, second.prState]).toEqual(['completed', undefined, 'open'])
      expect(existsSync(retainedFolder(sandboxDir, first.id))).toBe(false)
      expect(worker.err()).toMatch(/is discarded because the disk is full/)
      expect(worker.err()).not.toMatch(/rejected a dispatch/)
    } finally {
      worker.process.kill('SIGKILL')
      await worker.exit
      execFileSync('umount', ['--lazy', sandboxDir])
    }
  },
  300_000,
)

/** The sandboxes lie in a folder that is named by a hash of the data directory. */
function retainedFolder(sandboxDir: string, runId: string): string {
  const found = execFileSync('find', [sandboxDir, '-maxdepth', '4', '-path', `*/sandboxes/${runId}`])
  return found.toString().trim() || `${sandboxDir}/none`
}
