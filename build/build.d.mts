/** The path of the built command. */
export const program: string
export function isBuilt(): boolean
export function build(): Promise<void>
/** Writes the declarations of the client into a folder, beside its bundles by default. */
export function declareClient(folder?: string): void
