export interface WorkerPackageOptions {
  readonly arch?: string
  /** A folder with the tarballs of native packages. */
  readonly tarballs?: string
  /** What package-lock.json holds. */
  readonly lock?: object
}

/** The archive, and the sources of its bundles. */
export function makeWorkerPackage(
  options?: WorkerPackageOptions,
): Promise<{ readonly content: Buffer; readonly sources: readonly string[] }>
/** Writes the archive into dist/worker-package/, and returns its path. */
export function writeWorkerPackage(arch: string, content: Buffer): string
/** The path of the archive for an architecture, whether it is there or not. */
export function archiveOf(arch: string): string
export const isForThisMachine: boolean
