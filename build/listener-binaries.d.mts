export interface ListenerBinary {
  readonly name: string
  readonly content: Buffer
}
export function readListenerBinaries(place?: {
  readonly platform?: string
  readonly arch?: string
  readonly folder?: string
}): Promise<ListenerBinary[]>
