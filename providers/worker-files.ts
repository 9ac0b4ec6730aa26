/**
 * createWorkerFiles finds what a provisioned machine receives: the worker package for its processor, this host's own
 * Node.js, and the certificate authority of the fleet listener.
 */
import { createHash, X509Certificate } from 'node:crypto'
import { createReadStream } from 'node:fs'
import { readFile, realpath, stat } from 'node:fs/promises'
import { join } from 'node:path'
import { pipeline } from 'node:stream/promises'
import type { CopiedFile, HostNode, WorkerFiles, WorkerPackage } from '../core/ports/machines.ts'
import { no, type Result, yes } from '../core/result.ts'

export interface WorkerFilesPorts {
  /** The folder with the archives that the build has made. */
  readonly packageFolder: string
  /** The version of this host, which a worker gets too. */
  readonly version: string
}

export function createWorkerFiles({ packageFolder, version }: WorkerFilesPorts): WorkerFiles {
  return {
    findPackage: (arch) => findPackage(packageFolder, version, arch),
    async hostNode(): Promise<HostNode | undefined> {
      if (process.platform !== 'linux') return undefined
      const file = await describeFile(await realpath(process.execPath))
      return { ...file, version: process.version, arch: process.arch }
    },
    fleetAuthority: async (certFile) => findAuthority(await readFile(certFile, 'utf8').catch(() => '')),
  }
}

async function findPackage(folder: string, version: string, arch: string): Promise<Result<WorkerPackage>> {
  try {
    const file = await describeFile(join(folder, `switchyard-worker-${version}-linux-${arch}.tar.gz`))
    return yes({ ...file, version, folder: `switchyard-worker-${version}` })
  } catch {
    return no(
      'failed',
      `this host has no worker package of version ${version} for linux ${arch}; in its checkout: node build/worker-package.mjs --arch ${arch}`,
    )
  }
}

async function describeFile(path: string): Promise<CopiedFile> {
  const hash = createHash('sha256')
  const { size } = await stat(path)
  await pipeline(createReadStream(path), hash)
  return { bytes: size, sha256: hash.digest('hex'), read: () => createReadStream(path) }
}

/** Certificates that sign themselves; the others are signed by an authority that the worker's system may know. */
function findAuthority(text: string): string | undefined {
  const certificates = text.match(/-----BEGIN CERTIFICATE-----[\s\S]+?-----END CERTIFICATE-----/g) ?? []
  const own = certificates.filter((each) => {
    const { issuer, subject } = new X509Certificate(each)
    return issuer === subject
  })
  return own.length === 0 ? undefined : `${own.join('\n')}\n`
}
