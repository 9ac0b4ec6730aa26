/** The types of what tests use of `bundle.mjs`. */
export declare const options: {
  /** Packages that a bundle loads from node_modules. */
  readonly external: readonly string[]
  readonly banner: { readonly js: string }
}
