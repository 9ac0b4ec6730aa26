/**
 * The port of the bucket to which artifacts are uploaded, as `providers/storage.ts` implements it.
 */
import type { Result } from '../result.ts'

export interface BucketState {
  /** The bucket's command-line program is installed. */
  readonly installed: boolean
  readonly loggedIn: boolean
  readonly account?: string
}

export interface UploadRequest {
  readonly bucket: string
  /** The object key: segments joined by `/`. */
  readonly key: string
  readonly contentType: string
  readonly size: number
  readonly token?: string
  read(): AsyncIterable<Uint8Array>
}

export interface Bucket {
  /** @param token in place of the login of the bucket's program, here as in an upload */
  status(token?: string): Promise<BucketState>
  /** Checks a token and returns the name of its account. */
  check(token: string): Promise<Result<string>>
  /** Starts the login of the bucket's program, one at a time, and returns what the person must do. */
  login(): Promise<Result<string>>
  /** Uploads one file. Refuses with `invalid` when a retry is pointless. */
  upload(request: UploadRequest): Promise<Result<void>>
  /** Ends all programs that this object started. */
  stop(): void
}
