tutti profile 2
# The profile that is built in: what holds where nothing was measured. scripts/shipped-profile made it of what `tutti tune`
# measured on 2026-11-22, on 2 cores of an Intel(R) Xeon(R) Processor. Links inside a host are those of one pair;
# pairs that talk at once share what one has. Anchors say what sets algorithms apart, with a core for each rank, with ranks
# that share cores, and between hosts; what they say of the machine's speed is corrected where a communicator is made, by
# one pair of each kind of link.

machine host "" cpu "" cores 0 memory "" kernel ""

link kind cache transport shm interface "" flows 1 ways 1 from 0 to 1K alpha_us 0.30857 beta_us_per_mib 581.19 overhead_us 0.0889 points 0 error_percent 31.12
link kind cache transport shm interface "" flows 1 ways 1 from 1K to 16K alpha_us 0.80419 beta_us_per_mib 220.55 overhead_us 0.0889 points 0 error_percent 1.64
link kind cache transport shm interface "" flows 1 ways 1 from 16K to 512K alpha_us 3.7991 beta_us_per_mib 99.068 overhead_us 0.0889 points 0 error_percent 9.44
link kind cache transport shm interface "" flows 1 ways 1 from 512K to inf alpha_us 0 beta_us_per_mib 137.72 overhead_us 0.0889 points 0 error_percent 12.73
link kind cache transport shm interface "" flows 2 ways 1 from 0 to 1K alpha_us 0.30857 beta_us_per_mib 581.19 overhead_us 0.0889 points 0 error_percent 31.12
link kind cache transport shm interface "" flows 2 ways 1 from 1K to 16K alpha_us 0.80419 beta_us_per_mib 220.55 overhead_us 0.0889 points 0 error_percent 1.64
link kind cache transport shm interface "" flows 2 ways 1 from 16K to 512K alpha_us 3.7991 beta_us_per_mib 198.136 overhead_us 0.0889 points 0 error_percent 9.44
link kind cache transport shm interface "" flows 2 ways 1 from 512K to inf alpha_us 0 beta_us_per_mib 275.44 overhead_us 0.0889 points 0 error_percent 12.73
link kind cache transport shm interface "" flows 4 ways 1 from 0 to 1K alpha_us 0.30857 beta_us_per_mib 581.19 overhead_us 0.0889 points 0 error_percent 31.12
link kind cache transport shm interface "" flows 4 ways 1 from 1K to 16K alpha_us 0.80419 beta_us_per_mib 220.55 overhead_us 0.0889 points 0 error_percent 1.64
link kind cache transport shm interface "" flows 4 ways 1 from 16K to 512K alpha_us 3.7991 beta_us_per_mib 396.272 overhead_us 0.0889 points 0 error_percent 9.44
link kind cache transport shm interface "" flows 4 ways 1 from 512K to inf alpha_us 0 beta_us_per_mib 550.88 overhead_us 0.0889 points 0 error_percent 12.73
link kind cache transport shm interface "" flows 8 ways 1 from 0 to 1K alpha_us 0.30857 beta_us_per_mib 581.19 overhead_us 0.0889 points 0 error_percent 31.12
link kind cache transport shm interface "" flows 8 ways 1 from 1K to 16K alpha_us 0.80419 beta_us_per_mib 220.55 overhead_us 0.0889 points 0 error_percent 1.64
link kind cache transport shm interface "" flows 8 ways 1 from 16K to 512K alpha_us 3.7991 beta_us_per_mib 792.544 overhead_us 0.0889 points 0 error_percent 9.44
link kind cache transport shm interface "" flows 8 ways 1 from 512K to inf alpha_us 0 beta_us_per_mib 1101.76 overhead_us 0.0889 points 0 error_percent 12.73
link kind cache transport shm interface "" flows 1 ways 2 from 0 to 64 alpha_us 0.38867 beta_us_per_mib 979.3 overhead_us 0.0889 points 0 error_percent 24.94
link kind cache transport shm interface "" flows 1 ways 2 from 64 to 2K alpha_us 0.55377 beta_us_per_mib 492.03 overhead_us 0.0889 points 0 error_percent 1.25
link kind cache transport shm interface "" flows 1 ways 2 from 2K to 512K alpha_us 1.4041 beta_us_per_mib 180.86 overhead_us 0.0889 points 0 error_percent 12.23
link kind cache transport shm interface "" flows 1 ways 2 from 512K to inf alpha_us 0 beta_us_per_mib 244.32 overhead_us 0.0889 points 0 error_percent 18.99
link kind cache transport shm interface "" flows 2 ways 2 from 0 to 64 alpha_us 0.38867 beta_us_per_mib 979.3 overhead_us 0.0889 points 0 error_percent 24.94
link kind cache transport shm interface "" flows 2 ways 2 from 64 to 2K alpha_us 0.55377 beta_us_per_mib 492.03 overhead_us 0.0889 points 0 error_percent 1.25
link kind cache transport shm interface "" flows 2 ways 2 from 2K to 512K alpha_us 1.4041 beta_us_per_mib 361.72 overhead_us 0.0889 points 0 error_percent 12.23
link kind cache transport shm interface "" flows 2 ways 2 from 512K to inf alpha_us 0 beta_us_per_mib 488.64 overhead_us 0.0889 points 0 error_percent 18.99
link kind cache transport shm interface "" flows 4 ways 2 from 0 to 64 alpha_us 0.38867 beta_us_per_mib 979.3 overhead_us 0.0889 points 0 error_percent 24.94
link kind cache transport shm interface "" flows 4 ways 2 from 64 to 2K alpha_us 0.55377 beta_us_per_mib 492.03 overhead_us 0.0889 points 0 error_percent 1.25
link kind cache transport shm interface "" flows 4 ways 2 from 2K to 512K alpha_us 1.4041 beta_us_per_mib 723.44 overhead_us 0.0889 points 0 error_percent 12.23
link kind cache transport shm interface "" flows 4 ways 2 from 512K to inf alpha_us 0 beta_us_per_mib 977.28 overhead_us 0.0889 points 0 error_percent 18.99
link kind cache transport shm interface "" flows 8 ways 2 from 0 to 64 alpha_us 0.38867 beta_us_per_mib 979.3 overhead_us 0.0889 points 0 error_percent 24.94
link kind cache transport shm interface "" flows 8 ways 2 from 64 to 2K alpha_us 0.55377 beta_us_per_mib 492.03 overhead_us 0.0889 points 0 error_percent 1.25
link kind cache transport shm interface "" flows 8 ways 2 from 2K to 512K alpha_us 1.4041 beta_us_per_mib 1446.88 overhead_us 0.0889 points 0 error_percent 12.23
link kind cache transport shm interface "" flows 8 ways 2 from 512K to inf alpha_us 0 beta_us_per_mib 1954.56 overhead_us 0.0889 points 0 error_percent 18.99
link kind cache transport tcp interface "" flows 1 ways 1 from 0 to 32K alpha_us 5.7061 beta_us_per_mib 388.99 overhead_us 5.284 points 0 error_percent 12.1
link kind cache transport tcp interface "" flows 1 ways 1 from 32K to 512K alpha_us 15.858 beta_us_per_mib 165.22 overhead_us 5.284 points 0 error_percent 8.5
link kind cache transport tcp interface "" flows 1 ways 1 from 512K to inf alpha_us 0 beta_us_per_mib 249.84 overhead_us 5.284 points 0 error_percent 8.36
link kind cache transport tcp interface "" flows 2 ways 1 from 0 to 32K alpha_us 5.7061 beta_us_per_mib 388.99 overhead_us 5.284 points 0 error_percent 12.1
link kind cache transport tcp interface "" flows 2 ways 1 from 32K to 512K alpha_us 15.858 beta_us_per_mib 330.44 overhead_us 5.284 points 0 error_percent 8.5
link kind cache transport tcp interface "" flows 2 ways 1 from 512K to inf alpha_us 0 beta_us_per_mib 499.68 overhead_us 5.284 points 0 error_percent 8.36
link kind cache transport tcp interface "" flows 4 ways 1 from 0 to 32K alpha_us 5.7061 beta_us_per_mib 388.99 overhead_us 5.284 points 0 error_percent 12.1
link kind cache transport tcp interface "" flows 4 ways 1 from 32K to 512K alpha_us 15.858 beta_us_per_mib 660.88 overhead_us 5.284 points 0 error_percent 8.5
link kind cache transport tcp interface "" flows 4 ways 1 from 512K to inf alpha_us 0 beta_us_per_mib 999.36 overhead_us 5.284 points 0 error_percent 8.36
link kind cache transport tcp interface "" flows 8 ways 1 from 0 to 32K alpha_us 5.7061 beta_us_per_mib 388.99 overhead_us 5.284 points 0 error_percent 12.1
link kind cache transport tcp interface "" flows 8 ways 1 from 32K to 512K alpha_us 15.858 beta_us_per_mib 1321.76 overhead_us 5.284 points 0 error_percent 8.5
link kind cache transport tcp interface "" flows 8 ways 1 from 512K to inf alpha_us 0 beta_us_per_mib 1998.72 overhead_us 5.284 points 0 error_percent 8.36
link kind cache transport tcp interface "" flows 1 ways 2 from 0 to inf alpha_us 8.0371 beta_us_per_mib 382.3 overhead_us 5.284 points 0 error_percent 14.84
link kind cache transport tcp interface "" flows 2 ways 2 from 0 to inf alpha_us 8.0371 beta_us_per_mib 764.6 overhead_us 5.284 points 0 error_percent 14.84
link kind cache transport tcp interface "" flows 4 ways 2 from 0 to inf alpha_us 8.0371 beta_us_per_mib 1529.2 overhead_us 5.284 points 0 error_percent 14.84
link kind cache transport tcp interface "" flows 8 ways 2 from 0 to inf alpha_us 8.0371 beta_us_per_mib 3058.4 overhead_us 5.284 points 0 error_percent 14.84
link kind numa transport shm interface "" flows 1 ways 1 from 0 to 1K alpha_us 0.30857 beta_us_per_mib 581.19 overhead_us 0.0889 points 0 error_percent 31.12
link kind numa transport shm interface "" flows 1 ways 1 from 1K to 16K alpha_us 0.80419 beta_us_per_mib 220.55 overhead_us 0.0889 points 0 error_percent 1.64
link kind numa transport shm interface "" flows 1 ways 1 from 16K to 512K alpha_us 3.7991 beta_us_per_mib 99.068 overhead_us 0.0889 points 0 error_percent 9.44
link kind numa transport shm interface "" flows 1 ways 1 from 512K to inf alpha_us 0 beta_us_per_mib 137.72 overhead_us 0.0889 points 0 error_percent 12.73
link kind numa transport shm interface "" flows 2 ways 1 from 0 to 1K alpha_us 0.30857 beta_us_per_mib 581.19 overhead_us 0.0889 points 0 error_percent 31.12
link kind numa transport shm interface "" flows 2 ways 1 from 1K to 16K alpha_us 0.80419 beta_us_per_mib 220.55 overhead_us 0.0889 points 0 error_percent 1.64
link kind numa transport shm interface "" flows 2 ways 1 from 16K to 512K alpha_us 3.7991 beta_us_per_mib 198.136 overhead_us 0.0889 points 0 error_percent 9.44
link kind numa transport shm interface "" flows 2 ways 1 from 512K to inf alpha_us 0 beta_us_per_mib 275.44 overhead_us 0.0889 points 0 error_percent 12.73
link kind numa transport shm interface "" flows 4 ways 1 from 0 to 1K alpha_us 0.30857 beta_us_per_mib 581.19 overhead_us 0.0889 points 0 error_percent 31.12
link kind numa transport shm interface "" flows 4 ways 1 from 1K to 16K alpha_us 0.80419 beta_us_per_mib 220.55 overhead_us 0.0889 points 0 error_percent 1.64
link kind numa transport shm interface "" flows 4 ways 1 from 16K to 512K alpha_us 3.7991 beta_us_per_mib 396.272 overhead_us 0.0889 points 0 error_percent 9.44
link kind numa transport shm interface "" flows 4 ways 1 from 512K to inf alpha_us 0 beta_us_per_mib 550.88 overhead_us 0.0889 points 0 error_percent 12.73
link kind numa transport shm interface "" flows 8 ways 1 from 0 to 1K alpha_us 0.30857 beta_us_per_mib 581.19 overhead_us 0.0889 points 0 error_percent 31.12
link kind numa transport shm interface "" flows 8 ways 1 from 1K to 16K alpha_us 0.80419 beta_us_per_mib 220.55 overhead_us 0.0889 points 0 error_percent 1.64
link kind numa transport shm interface "" flows 8 ways 1 from 16K to 512K alpha_us 3.7991 beta_us_per_mib 792.544 overhead_us 0.0889 points 0 error_percent 9.44
link kind numa transport shm interface "" flows 8 ways 1 from 512K to inf alpha_us 0 beta_us_per_mib 1101.76 overhead_us 0.0889 points 0 error_percent 12.73
link kind numa transport shm interface "" flows 1 ways 2 from 0 to 64 alpha_us 0.38867 beta_us_per_mib 979.3 overhead_us 0.0889 points 0 error_percent 24.94
link kind numa transport shm interface "" flows 1 ways 2 from 64 to 2K alpha_us 0.55377 beta_us_per_mib 492.03 overhead_us 0.0889 points 0 error_percent 1.25
link kind numa transport shm interface "" flows 1 ways 2 from 2K to 512K alpha_us 1.4041 beta_us_per_mib 180.86 overhead_us 0.0889 points 0 error_percent 12.23
link kind numa transport shm interface "" flows 1 ways 2 from 512K to inf alpha_us 0 beta_us_per_mib 244.32 overhead_us 0.0889 points 0 error_percent 18.99
link kind numa transport shm interface "" flows 2 ways 2 from 0 to 64 alpha_us 0.38867 beta_us_per_mib 979.3 overhead_us 0.0889 points 0 error_percent 24.94
link kind numa transport shm interface "" flows 2 ways 2 from 64 to 2K alpha_us 0.55377 beta_us_per_mib 492.03 overhead_us 0.0889 points 0 error_percent 1.25
link kind numa transport shm interface "" flows 2 ways 2 from 2K to 512K alpha_us 1.4041 beta_us_per_mib 361.72 overhead_us 0.0889 points 0 error_percent 12.23
link kind numa transport shm interface "" flows 2 ways 2 from 512K to inf alpha_us 0 beta_us_per_mib 488.64 overhead_us 0.0889 points 0 error_percent 18.99
link kind numa transport shm interface "" flows 4 ways 2 from 0 to 64 alpha_us 0.38867 beta_us_per_mib 979.3 overhead_us 0.0889 points 0 error_percent 24.94
link kind numa transport shm interface "" flows 4 ways 2 from 64 to 2K alpha_us 0.55377 beta_us_per_mib 492.03 overhead_us 0.0889 points 0 error_percent 1.25
link kind numa transport shm interface "" flows 4 ways 2 from 2K to 512K alpha_us 1.4041 beta_us_per_mib 723.44 overhead_us 0.0889 points 0 error_percent 12.23
link kind numa transport shm interface "" flows 4 ways 2 from 512K to inf alpha_us 0 beta_us_per_mib 977.28 overhead_us 0.0889 points 0 error_percent 18.99
link kind numa transport shm interface "" flows 8 ways 2 from 0 to 64 alpha_us 0.38867 beta_us_per_mib 979.3 overhead_us 0.0889 points 0 error_percent 24.94
link kind numa transport shm interface "" flows 8 ways 2 from 64 to 2K alpha_us 0.55377 beta_us_per_mib 492.03 overhead_us 0.0889 points 0 error_percent 1.25
link kind numa transport shm interface "" flows 8 ways 2 from 2K to 512K alpha_us 1.4041 beta_us_per_mib 1446.88 overhead_us 0.0889 points 0 error_percent 12.23
link kind numa transport shm interface "" flows 8 ways 2 from 512K to inf alpha_us 0 beta_us_per_mib 1954.56 overhead_us 0.0889 points 0 error_percent 18.99
link kind numa transport tcp interface "" flows 1 ways 1 from 0 to 32K alpha_us 5.7061 beta_us_per_mib 388.99 overhead_us 5.284 points 0 error_percent 12.1
link kind numa transport tcp interface "" flows 1 ways 1 from 32K to 512K alpha_us 15.858 beta_us_per_mib 165.22 overhead_us 5.284 points 0 error_percent 8.5
link kind numa transport tcp interface "" flows 1 ways 1 from 512K to inf alpha_us 0 beta_us_per_mib 249.84 overhead_us 5.284 points 0 error_percent 8.36
link kind numa transport tcp interface "" flows 2 ways 1 from 0 to 32K alpha_us 5.7061 beta_us_per_mib 388.99 overhead_us 5.284 points 0 error_percent 12.1
link kind numa transport tcp interface "" flows 2 ways 1 from 32K to 512K alpha_us 15.858 beta_us_per_mib 330.44 overhead_us 5.284 points 0 error_percent 8.5
link kind numa transport tcp interface "" flows 2 ways 1 from 512K to inf alpha_us 0 beta_us_per_mib 499.68 overhead_us 5.284 points 0 error_percent 8.36
link kind numa transport tcp interface "" flows 4 ways 1 from 0 to 32K alpha_us 5.7061 beta_us_per_mib 388.99 overhead_us 5.284 points 0 error_percent 12.1
link kind numa transport tcp interface "" flows 4 ways 1 from 32K to 512K alpha_us 15.858 beta_us_per_mib 660.88 overhead_us 5.284 points 0 error_percent 8.5
link kind numa transport tcp interface "" flows 4 ways 1 from 512K to inf alpha_us 0 beta_us_per_mib 999.36 overhead_us 5.284 points 0 error_percent 8.36
link kind numa transport tcp interface "" flows 8 ways 1 from 0 to 32K alpha_us 5.7061 beta_us_per_mib 388.99 overhead_us 5.284 points 0 error_percent 12.1
link kind numa transport tcp interface "" flows 8 ways 1 from 32K to 512K alpha_us 15.858 beta_us_per_mib 1321.76 overhead_us 5.284 points 0 error_percent 8.5
link kind numa transport tcp interface "" flows 8 ways 1 from 512K to inf alpha_us 0 beta_us_per_mib 1998.72 overhead_us 5.284 points 0 error_percent 8.36
link kind numa transport tcp interface "" flows 1 ways 2 from 0 to inf alpha_us 8.0371 beta_us_per_mib 382.3 overhead_us 5.284 points 0 error_percent 14.84
link kind numa transport tcp interface "" flows 2 ways 2 from 0 to inf alpha_us 8.0371 beta_us_per_mib 764.6 overhead_us 5.284 points 0 error_percent 14.84
link kind numa transport tcp interface "" flows 4 ways 2 from 0 to inf alpha_us 8.0371 beta_us_per_mib 1529.2 overhead_us 5.284 points 0 error_percent 14.84
link kind numa transport tcp interface "" flows 8 ways 2 from 0 to inf alpha_us 8.0371 beta_us_per_mib 3058.4 overhead_us 5.284 points 0 error_percent 14.84
link kind node transport shm interface "" flows 1 ways 1 from 0 to 1K alpha_us 0.462855 beta_us_per_mib 755.547 overhead_us 0.13335 points 0 error_percent 31.12
link kind node transport shm interface "" flows 1 ways 1 from 1K to 16K alpha_us 1.20628 beta_us_per_mib 286.715 overhead_us 0.13335 points 0 error_percent 1.64
link kind node transport shm interface "" flows 1 ways 1 from 16K to 512K alpha_us 5.69865 beta_us_per_mib 128.788 overhead_us 0.13335 points 0 error_percent 9.44
link kind node transport shm interface "" flows 1 ways 1 from 512K to inf alpha_us 0 beta_us_per_mib 179.036 overhead_us 0.13335 points 0 error_percent 12.73
link kind node transport shm interface "" flows 2 ways 1 from 0 to 1K alpha_us 0.462855 beta_us_per_mib 755.547 overhead_us 0.13335 points 0 error_percent 31.12
link kind node transport shm interface "" flows 2 ways 1 from 1K to 16K alpha_us 1.20628 beta_us_per_mib 286.715 overhead_us 0.13335 points 0 error_percent 1.64
link kind node transport shm interface "" flows 2 ways 1 from 16K to 512K alpha_us 5.69865 beta_us_per_mib 257.577 overhead_us 0.13335 points 0 error_percent 9.44
link kind node transport shm interface "" flows 2 ways 1 from 512K to inf alpha_us 0 beta_us_per_mib 358.072 overhead_us 0.13335 points 0 error_percent 12.73
link kind node transport shm interface "" flows 4 ways 1 from 0 to 1K alpha_us 0.462855 beta_us_per_mib 755.547 overhead_us 0.13335 points 0 error_percent 31.12
link kind node transport shm interface "" flows 4 ways 1 from 1K to 16K alpha_us 1.20628 beta_us_per_mib 286.715 overhead_us 0.13335 points 0 error_percent 1.64
link kind node transport shm interface "" flows 4 ways 1 from 16K to 512K alpha_us 5.69865 beta_us_per_mib 515.154 overhead_us 0.13335 points 0 error_percent 9.44
link kind node transport shm interface "" flows 4 ways 1 from 512K to inf alpha_us 0 beta_us_per_mib 716.144 overhead_us 0.13335 points 0 error_percent 12.73
link kind node transport shm interface "" flows 8 ways 1 from 0 to 1K alpha_us 0.462855 beta_us_per_mib 755.547 overhead_us 0.13335 points 0 error_percent 31.12
link kind node transport shm interface "" flows 8 ways 1 from 1K to 16K alpha_us 1.20628 beta_us_per_mib 286.715 overhead_us 0.13335 points 0 error_percent 1.64
link kind node transport shm interface "" flows 8 ways 1 from 16K to 512K alpha_us 5.69865 beta_us_per_mib 1030.31 overhead_us 0.13335 points 0 error_percent 9.44
link kind node transport shm interface "" flows 8 ways 1 from 512K to inf alpha_us 0 beta_us_per_mib 1432.29 overhead_us 0.13335 points 0 error_percent 12.73
link kind node transport shm interface "" flows 1 ways 2 from 0 to 64 alpha_us 0.583005 beta_us_per_mib 1273.09 overhead_us 0.13335 points 0 error_percent 24.94
link kind node transport shm interface "" flows 1 ways 2 from 64 to 2K alpha_us 0.830655 beta_us_per_mib 639.639 overhead_us 0.13335 points 0 error_percent 1.25
link kind node transport shm interface "" flows 1 ways 2 from 2K to 512K alpha_us 2.10615 beta_us_per_mib 235.118 overhead_us 0.13335 points 0 error_percent 12.23
link kind node transport shm interface "" flows 1 ways 2 from 512K to inf alpha_us 0 beta_us_per_mib 317.616 overhead_us 0.13335 points 0 error_percent 18.99
link kind node transport shm interface "" flows 2 ways 2 from 0 to 64 alpha_us 0.583005 beta_us_per_mib 1273.09 overhead_us 0.13335 points 0 error_percent 24.94
link kind node transport shm interface "" flows 2 ways 2 from 64 to 2K alpha_us 0.830655 beta_us_per_mib 639.639 overhead_us 0.13335 points 0 error_percent 1.25
link kind node transport shm interface "" flows 2 ways 2 from 2K to 512K alpha_us 2.10615 beta_us_per_mib 470.236 overhead_us 0.13335 points 0 error_percent 12.23
link kind node transport shm interface "" flows 2 ways 2 from 512K to inf alpha_us 0 beta_us_per_mib 635.232 overhead_us 0.13335 points 0 error_percent 18.99
link kind node transport shm interface "" flows 4 ways 2 from 0 to 64 alpha_us 0.583005 beta_us_per_mib 1273.09 overhead_us 0.13335 points 0 error_percent 24.94
link kind node transport shm interface "" flows 4 ways 2 from 64 to 2K alpha_us 0.830655 beta_us_per_mib 639.639 overhead_us 0.13335 points 0 error_percent 1.25
link kind node transport shm interface "" flows 4 ways 2 from 2K to 512K alpha_us 2.10615 beta_us_per_mib 940.472 overhead_us 0.13335 points 0 error_percent 12.23
link kind node transport shm interface "" flows 4 ways 2 from 512K to inf alpha_us 0 beta_us_per_mib 1270.46 overhead_us 0.13335 points 0 error_percent 18.99
link kind node transport shm interface "" flows 8 ways 2 from 0 to 64 alpha_us 0.583005 beta_us_per_mib 1273.09 overhead_us 0.13335 points 0 error_percent 24.94
link kind node transport shm interface "" flows 8 ways 2 from 64 to 2K alpha_us 0.830655 beta_us_per_mib 639.639 overhead_us 0.13335 points 0 error_percent 1.25
link kind node transport shm interface "" flows 8 ways 2 from 2K to 512K alpha_us 2.10615 beta_us_per_mib 1880.94 overhead_us 0.13335 points 0 error_percent 12.23
link kind node transport shm interface "" flows 8 ways 2 from 512K to inf alpha_us 0 beta_us_per_mib 2540.93 overhead_us 0.13335 points 0 error_percent 18.99
link kind node transport tcp interface "" flows 1 ways 1 from 0 to 32K alpha_us 5.7061 beta_us_per_mib 388.99 overhead_us 5.284 points 0 error_percent 12.1
link kind node transport tcp interface "" flows 1 ways 1 from 32K to 512K alpha_us 15.858 beta_us_per_mib 165.22 overhead_us 5.284 points 0 error_percent 8.5
link kind node transport tcp interface "" flows 1 ways 1 from 512K to inf alpha_us 0 beta_us_per_mib 249.84 overhead_us 5.284 points 0 error_percent 8.36
link kind node transport tcp interface "" flows 2 ways 1 from 0 to 32K alpha_us 5.7061 beta_us_per_mib 388.99 overhead_us 5.284 points 0 error_percent 12.1
link kind node transport tcp interface "" flows 2 ways 1 from 32K to 512K alpha_us 15.858 beta_us_per_mib 330.44 overhead_us 5.284 points 0 error_percent 8.5
link kind node transport tcp interface "" flows 2 ways 1 from 512K to inf alpha_us 0 beta_us_per_mib 499.68 overhead_us 5.284 points 0 error_percent 8.36
link kind node transport tcp interface "" flows 4 ways 1 from 0 to 32K alpha_us 5.7061 beta_us_per_mib 388.99 overhead_us 5.284 points 0 error_percent 12.1
link kind node transport tcp interface "" flows 4 ways 1 from 32K to 512K alpha_us 15.858 beta_us_per_mib 660.88 overhead_us 5.284 points 0 error_percent 8.5
link kind node transport tcp interface "" flows 4 ways 1 from 512K to inf alpha_us 0 beta_us_per_mib 999.36 overhead_us 5.284 points 0 error_percent 8.36
link kind node transport tcp interface "" flows 8 ways 1 from 0 to 32K alpha_us 5.7061 beta_us_per_mib 388.99 overhead_us 5.284 points 0 error_percent 12.1
link kind node transport tcp interface "" flows 8 ways 1 from 32K to 512K alpha_us 15.858 beta_us_per_mib 1321.76 overhead_us 5.284 points 0 error_percent 8.5
link kind node transport tcp interface "" flows 8 ways 1 from 512K to inf alpha_us 0 beta_us_per_mib 1998.72 overhead_us 5.284 points 0 error_percent 8.36
link kind node transport tcp interface "" flows 1 ways 2 from 0 to inf alpha_us 8.0371 beta_us_per_mib 382.3 overhead_us 5.284 points 0 error_percent 14.84
link kind node transport tcp interface "" flows 2 ways 2 from 0 to inf alpha_us 8.0371 beta_us_per_mib 764.6 overhead_us 5.284 points 0 error_percent 14.84
link kind node transport tcp interface "" flows 4 ways 2 from 0 to inf alpha_us 8.0371 beta_us_per_mib 1529.2 overhead_us 5.284 points 0 error_percent 14.84
link kind node transport tcp interface "" flows 8 ways 2 from 0 to inf alpha_us 8.0371 beta_us_per_mib 3058.4 overhead_us 5.284 points 0 error_percent 14.84
link kind net transport tcp interface "" flows 1 ways 1 from 0 to 906 alpha_us 6.8793 beta_us_per_mib 197.97 overhead_us 5.793 points 0 error_percent 6.98
link kind net transport tcp interface "" flows 1 ways 1 from 906 to 32K alpha_us 3.3297 beta_us_per_mib 4307.2 overhead_us 5.793 points 0 error_percent 14.02
link kind net transport tcp interface "" flows 1 ways 1 from 32K to inf alpha_us 0 beta_us_per_mib 8643.7 overhead_us 5.793 points 0 error_percent 40.99
link kind net transport tcp interface "" flows 1 ways 2 from 0 to 1123 alpha_us 9.6226 beta_us_per_mib 1014.1 overhead_us 5.793 points 0 error_percent 13.49
link kind net transport tcp interface "" flows 1 ways 2 from 1123 to 1M alpha_us 1.3115 beta_us_per_mib 8781.2 overhead_us 5.793 points 0 error_percent 0.37
link kind net transport tcp interface "" flows 1 ways 2 from 1M to inf alpha_us 0 beta_us_per_mib 8914.4 overhead_us 5.793 points 0 error_percent 0.52
reduce type int32 op sum sources 2 level L1 bytes 24K gamma_us_per_mib 17.56 error_percent 39.38
reduce type int32 op sum sources 2 level L2 bytes 1M gamma_us_per_mib 32.73 error_percent 7.7
reduce type int32 op sum sources 2 level L3 bytes 26880K gamma_us_per_mib 100.9 error_percent 46.56
reduce type int32 op sum sources 2 level memory bytes 256M gamma_us_per_mib 107.3 error_percent 13.36
reduce type int32 op sum sources 4 level L1 bytes 24K gamma_us_per_mib 24.03 error_percent 40.36
reduce type int32 op sum sources 4 level L2 bytes 1M gamma_us_per_mib 27.3 error_percent 38.73
reduce type int32 op sum sources 4 level L3 bytes 26880K gamma_us_per_mib 70.66 error_percent 46.01
reduce type int32 op sum sources 4 level memory bytes 256M gamma_us_per_mib 65.94 error_percent 15.03
reduce type half op sum sources 2 level L1 bytes 24K gamma_us_per_mib 65.41 error_percent 2.08
reduce type half op sum sources 2 level L2 bytes 1M gamma_us_per_mib 69.34 error_percent 11.26
reduce type half op sum sources 2 level L3 bytes 26880K gamma_us_per_mib 126.7 error_percent 44.28
reduce type half op sum sources 2 level memory bytes 256M gamma_us_per_mib 122.3 error_percent 13.51
reduce type half op sum sources 4 level L1 bytes 24K gamma_us_per_mib 55.8 error_percent 29.92
reduce type half op sum sources 4 level L2 bytes 1M gamma_us_per_mib 61.03 error_percent 18.22
reduce type half op sum sources 4 level L3 bytes 26880K gamma_us_per_mib 75.68 error_percent 28.12
reduce type half op sum sources 4 level memory bytes 256M gamma_us_per_mib 65.83 error_percent 35.23
reduce type float op sum sources 2 level L1 bytes 24K gamma_us_per_mib 26.15 error_percent 24.5
reduce type float op sum sources 2 level L2 bytes 1M gamma_us_per_mib 43.35 error_percent 18.76
reduce type float op sum sources 2 level L3 bytes 26880K gamma_us_per_mib 160.4 error_percent 36.61
reduce type float op sum sources 2 level memory bytes 256M gamma_us_per_mib 120.4 error_percent 888.7
reduce type float op sum sources 4 level L1 bytes 24K gamma_us_per_mib 23.17 error_percent 16.72
reduce type float op sum sources 4 level L2 bytes 1M gamma_us_per_mib 27.22 error_percent 24.58
reduce type float op sum sources 4 level L3 bytes 26880K gamma_us_per_mib 83.39 error_percent 53.23
reduce type float op sum sources 4 level memory bytes 256M gamma_us_per_mib 73.27 error_percent 16.7
reduce type float op max sources 2 level L1 bytes 24K gamma_us_per_mib 38.99 error_percent 22.47
reduce type float op max sources 2 level L2 bytes 1M gamma_us_per_mib 41.27 error_percent 27.87
reduce type float op max sources 2 level L3 bytes 26880K gamma_us_per_mib 110.2 error_percent 42.79
reduce type float op max sources 2 level memory bytes 256M gamma_us_per_mib 116.1 error_percent 12.44
reduce type float op max sources 4 level L1 bytes 24K gamma_us_per_mib 38.16 error_percent 30.83
reduce type float op max sources 4 level L2 bytes 1M gamma_us_per_mib 40.13 error_percent 27.22
reduce type float op max sources 4 level L3 bytes 26880K gamma_us_per_mib 73.56 error_percent 39.41
reduce type float op max sources 4 level memory bytes 256M gamma_us_per_mib 65.62 error_percent 17.05
reduce type double op sum sources 2 level L1 bytes 24K gamma_us_per_mib 20.22 error_percent 31.83
reduce type double op sum sources 2 level L2 bytes 1M gamma_us_per_mib 36.39 error_percent 23.4
reduce type double op sum sources 2 level L3 bytes 26880K gamma_us_per_mib 119.1 error_percent 47.62
reduce type double op sum sources 2 level memory bytes 256M gamma_us_per_mib 126.2 error_percent 18.4
reduce type double op sum sources 4 level L1 bytes 24K gamma_us_per_mib 23.63 error_percent 41.97
reduce type double op sum sources 4 level L2 bytes 1M gamma_us_per_mib 25.07 error_percent 24.59
reduce type double op sum sources 4 level L3 bytes 26880K gamma_us_per_mib 74.37 error_percent 52.2
reduce type double op sum sources 4 level memory bytes 256M gamma_us_per_mib 67.28 error_percent 13.08
reduce type bfloat16 op sum sources 2 level L1 bytes 24K gamma_us_per_mib 88.01 error_percent 23.76
reduce type bfloat16 op sum sources 2 level L2 bytes 1M gamma_us_per_mib 90.27 error_percent 4.488
reduce type bfloat16 op sum sources 2 level L3 bytes 26880K gamma_us_per_mib 119 error_percent 53.39
reduce type bfloat16 op sum sources 2 level memory bytes 256M gamma_us_per_mib 125.3 error_percent 9.655
reduce type bfloat16 op sum sources 4 level L1 bytes 24K gamma_us_per_mib 49.34 error_percent 21.27
reduce type bfloat16 op sum sources 4 level L2 bytes 1M gamma_us_per_mib 52.5 error_percent 19.11
reduce type bfloat16 op sum sources 4 level L3 bytes 26880K gamma_us_per_mib 75.97 error_percent 35.52
reduce type bfloat16 op sum sources 4 level memory bytes 256M gamma_us_per_mib 66.34 error_percent 22.07
anchor collective all_reduce algo binary_blocks radix 0 block 128K ranks 2 nodes 1 cores 2 transport shm bytes 8 us 0.6493
anchor collective all_reduce algo binary_blocks radix 0 block 128K ranks 2 nodes 1 cores 2 transport shm bytes 512 us 1.149
anchor collective all_reduce algo binary_blocks radix 0 block 128K ranks 2 nodes 1 cores 2 transport shm bytes 4K us 2.673
anchor collective all_reduce algo binary_blocks radix 0 block 128K ranks 2 nodes 1 cores 2 transport shm bytes 16K us 5.416
anchor collective all_reduce algo binary_blocks radix 0 block 128K ranks 2 nodes 1 cores 2 transport shm bytes 64K us 12.63
anchor collective all_reduce algo binary_blocks radix 0 block 128K ranks 2 nodes 1 cores 2 transport shm bytes 256K us 48.4
anchor collective all_reduce algo binary_blocks radix 0 block 128K ranks 2 nodes 1 cores 2 transport shm bytes 1M us 214.5
anchor collective all_reduce algo binary_blocks radix 0 block 128K ranks 2 nodes 1 cores 2 transport shm bytes 8M us 2130
anchor collective all_reduce algo binary_blocks_whole radix 0 block 128K ranks 2 nodes 1 cores 2 transport shm bytes 8 us 0.3945
anchor collective all_reduce algo binary_blocks_whole radix 0 block 128K ranks 2 nodes 1 cores 2 transport shm bytes 512 us 0.6327
anchor collective all_reduce algo binary_blocks_whole radix 0 block 128K ranks 2 nodes 1 cores 2 transport shm bytes 4K us 1.848
anchor collective all_reduce algo binary_blocks_whole radix 0 block 128K ranks 2 nodes 1 cores 2 transport shm bytes 16K us 4.666
anchor collective all_reduce algo binary_blocks_whole radix 0 block 128K ranks 2 nodes 1 cores 2 transport shm bytes 64K us 15.66
anchor collective all_reduce algo binary_blocks_whole radix 0 block 128K ranks 2 nodes 1 cores 2 transport shm bytes 256K us 60.7
anchor collective all_reduce algo binary_blocks_whole radix 0 block 128K ranks 2 nodes 1 cores 2 transport shm bytes 1M us 294.3
anchor collective all_reduce algo binary_blocks_whole radix 0 block 128K ranks 2 nodes 1 cores 2 transport shm bytes 8M us 2777
anchor collective all_reduce algo binary_tree radix 0 block 128K ranks 2 nodes 1 cores 2 transport shm bytes 8 us 0.6233
anchor collective all_reduce algo binary_tree radix 0 block 128K ranks 2 nodes 1 cores 2 transport shm bytes 512 us 1.204
anchor collective all_reduce algo binary_tree radix 0 block 128K ranks 2 nodes 1 cores 2 transport shm bytes 4K us 3.295
anchor collective all_reduce algo binary_tree radix 0 block 128K ranks 2 nodes 1 cores 2 transport shm bytes 16K us 8.436
anchor collective all_reduce algo binary_tree radix 0 block 128K ranks 2 nodes 1 cores 2 transport shm bytes 64K us 20.15
anchor collective all_reduce algo binary_tree radix 0 block 128K ranks 2 nodes 1 cores 2 transport shm bytes 256K us 59.82
anchor collective all_reduce algo binary_tree radix 0 block 128K ranks 2 nodes 1 cores 2 transport shm bytes 1M us 232
anchor collective all_reduce algo binary_tree radix 0 block 128K ranks 2 nodes 1 cores 2 transport shm bytes 8M us 2095
anchor collective all_reduce algo circulant radix 0 block 64K ranks 2 nodes 1 cores 2 transport shm bytes 256K us 48.04
anchor collective all_reduce algo circulant radix 0 block 64K ranks 2 nodes 1 cores 2 transport shm bytes 1M us 234.4
anchor collective all_reduce algo circulant radix 0 block 64K ranks 2 nodes 1 cores 2 transport shm bytes 8M us 2167
anchor collective all_reduce algo circulant radix 0 block 128K ranks 2 nodes 1 cores 2 transport shm bytes 8 us 0.6583
anchor collective all_reduce algo circulant radix 0 block 128K ranks 2 nodes 1 cores 2 transport shm bytes 512 us 1.114
anchor collective all_reduce algo circulant radix 0 block 128K ranks 2 nodes 1 cores 2 transport shm bytes 4K us 2.806
anchor collective all_reduce algo circulant radix 0 block 128K ranks 2 nodes 1 cores 2 transport shm bytes 16K us 5.493
anchor collective all_reduce algo circulant radix 0 block 128K ranks 2 nodes 1 cores 2 transport shm bytes 64K us 13.53
anchor collective all_reduce algo circulant radix 0 block 128K ranks 2 nodes 1 cores 2 transport shm bytes 256K us 49.6
anchor collective all_reduce algo circulant radix 0 block 128K ranks 2 nodes 1 cores 2 transport shm bytes 1M us 203.6
anchor collective all_reduce algo circulant radix 0 block 128K ranks 2 nodes 1 cores 2 transport shm bytes 8M us 2226
anchor collective all_reduce algo circulant radix 0 block 256K ranks 2 nodes 1 cores 2 transport shm bytes 1M us 218.7
anchor collective all_reduce algo circulant radix 0 block 256K ranks 2 nodes 1 cores 2 transport shm bytes 8M us 2360
anchor collective all_reduce algo circulant radix 0 block 512K ranks 2 nodes 1 cores 2 transport shm bytes 1M us 195.1
anchor collective all_reduce algo circulant radix 0 block 512K ranks 2 nodes 1 cores 2 transport shm bytes 8M us 2385
anchor collective all_reduce algo direct radix 0 block 64K ranks 2 nodes 1 cores 2 transport shm bytes 256K us 50.3
anchor collective all_reduce algo direct radix 0 block 64K ranks 2 nodes 1 cores 2 transport shm bytes 1M us 213.8
anchor collective all_reduce algo direct radix 0 block 64K ranks 2 nodes 1 cores 2 transport shm bytes 8M us 2056
anchor collective all_reduce algo direct radix 0 block 128K ranks 2 nodes 1 cores 2 transport shm bytes 8 us 0.6545
anchor collective all_reduce algo direct radix 0 block 128K ranks 2 nodes 1 cores 2 transport shm bytes 512 us 1.113
anchor collective all_reduce algo direct radix 0 block 128K ranks 2 nodes 1 cores 2 transport shm bytes 4K us 2.591
anchor collective all_reduce algo direct radix 0 block 128K ranks 2 nodes 1 cores 2 transport shm bytes 16K us 5.552
anchor collective all_reduce algo direct radix 0 block 128K ranks 2 nodes 1 cores 2 transport shm bytes 64K us 13.09
anchor collective all_reduce algo direct radix 0 block 128K ranks 2 nodes 1 cores 2 transport shm bytes 256K us 49.71
anchor collective all_reduce algo direct radix 0 block 128K ranks 2 nodes 1 cores 2 transport shm bytes 1M us 206.8
anchor collective all_reduce algo direct radix 0 block 128K ranks 2 nodes 1 cores 2 transport shm bytes 8M us 2185
anchor collective all_reduce algo direct radix 0 block 256K ranks 2 nodes 1 cores 2 transport shm bytes 1M us 206.5
anchor collective all_reduce algo direct radix 0 block 256K ranks 2 nodes 1 cores 2 transport shm bytes 8M us 2196
anchor collective all_reduce algo direct radix 0 block 512K ranks 2 nodes 1 cores 2 transport shm bytes 1M us 191.8
anchor collective all_reduce algo direct radix 0 block 512K ranks 2 nodes 1 cores 2 transport shm bytes 8M us 2282
anchor collective all_reduce algo double_tree radix 0 block 128K ranks 2 nodes 1 cores 2 transport shm bytes 8 us 0.8107
anchor collective all_reduce algo double_tree radix 0 block 128K ranks 2 nodes 1 cores 2 transport shm bytes 512 us 1.444
anchor collective all_reduce algo double_tree radix 0 block 128K ranks 2 nodes 1 cores 2 transport shm bytes 4K us 3.298
anchor collective all_reduce algo double_tree radix 0 block 128K ranks 2 nodes 1 cores 2 transport shm bytes 16K us 8.344
anchor collective all_reduce algo double_tree radix 0 block 128K ranks 2 nodes 1 cores 2 transport shm bytes 64K us 19.19
anchor collective all_reduce algo double_tree radix 0 block 128K ranks 2 nodes 1 cores 2 transport shm bytes 256K us 57.17
anchor collective all_reduce algo double_tree radix 0 block 128K ranks 2 nodes 1 cores 2 transport shm bytes 1M us 208.3
anchor collective all_reduce algo double_tree radix 0 block 128K ranks 2 nodes 1 cores 2 transport shm bytes 8M us 2019
anchor collective all_reduce algo halving_doubling radix 0 block 128K ranks 2 nodes 1 cores 2 transport shm bytes 8 us 0.608
anchor collective all_reduce algo halving_doubling radix 0 block 128K ranks 2 nodes 1 cores 2 transport shm bytes 512 us 1.163
anchor collective all_reduce algo halving_doubling radix 0 block 128K ranks 2 nodes 1 cores 2 transport shm bytes 4K us 2.646
anchor collective all_reduce algo halving_doubling radix 0 block 128K ranks 2 nodes 1 cores 2 transport shm bytes 16K us 5.449
anchor collective all_reduce algo halving_doubling radix 0 block 128K ranks 2 nodes 1 cores 2 transport shm bytes 64K us 13.84
anchor collective all_reduce algo halving_doubling radix 0 block 128K ranks 2 nodes 1 cores 2 transport shm bytes 256K us 47.07
anchor collective all_reduce algo halving_doubling radix 0 block 128K ranks 2 nodes 1 cores 2 transport shm bytes 1M us 214.1
anchor collective all_reduce algo halving_doubling radix 0 block 128K ranks 2 nodes 1 cores 2 transport shm bytes 8M us 2156
anchor collective all_reduce algo hierarchical radix 0 block 64K ranks 2 nodes 1 cores 2 transport shm bytes 256K us 48.78
anchor collective all_reduce algo hierarchical radix 0 block 64K ranks 2 nodes 1 cores 2 transport shm bytes 1M us 221.9
anchor collective all_reduce algo hierarchical radix 0 block 64K ranks 2 nodes 1 cores 2 transport shm bytes 8M us 2219
anchor collective all_reduce algo hierarchical radix 0 block 128K ranks 2 nodes 1 cores 2 transport shm bytes 8 us 0.6419
anchor collective all_reduce algo hierarchical radix 0 block 128K ranks 2 nodes 1 cores 2 transport shm bytes 512 us 1.118
anchor collective all_reduce algo hierarchical radix 0 block 128K ranks 2 nodes 1 cores 2 transport shm bytes 4K us 2.841
anchor collective all_reduce algo hierarchical radix 0 block 128K ranks 2 nodes 1 cores 2 transport shm bytes 16K us 5.367
anchor collective all_reduce algo hierarchical radix 0 block 128K ranks 2 nodes 1 cores 2 transport shm bytes 64K us 13.31
anchor collective all_reduce algo hierarchical radix 0 block 128K ranks 2 nodes 1 cores 2 transport shm bytes 256K us 47.95
anchor collective all_reduce algo hierarchical radix 0 block 128K ranks 2 nodes 1 cores 2 transport shm bytes 1M us 215.9
anchor collective all_reduce algo hierarchical radix 0 block 128K ranks 2 nodes 1 cores 2 transport shm bytes 8M us 2263
anchor collective all_reduce algo hierarchical radix 0 block 256K ranks 2 nodes 1 cores 2 transport shm bytes 1M us 200.6
anchor collective all_reduce algo hierarchical radix 0 block 256K ranks 2 nodes 1 cores 2 transport shm bytes 8M us 2345
anchor collective all_reduce algo hierarchical radix 0 block 512K ranks 2 nodes 1 cores 2 transport shm bytes 1M us 207.8
anchor collective all_reduce algo hierarchical radix 0 block 512K ranks 2 nodes 1 cores 2 transport shm bytes 8M us 2235
anchor collective all_reduce algo hierarchical_shards radix 0 block 128K ranks 2 nodes 1 cores 2 transport shm bytes 8 us 0.6129
anchor collective all_reduce algo hierarchical_shards radix 0 block 128K ranks 2 nodes 1 cores 2 transport shm bytes 512 us 1.169
anchor collective all_reduce algo hierarchical_shards radix 0 block 128K ranks 2 nodes 1 cores 2 transport shm bytes 4K us 2.826
anchor collective all_reduce algo hierarchical_shards radix 0 block 128K ranks 2 nodes 1 cores 2 transport shm bytes 16K us 5.334
anchor collective all_reduce algo hierarchical_shards radix 0 block 128K ranks 2 nodes 1 cores 2 transport shm bytes 64K us 13.1
anchor collective all_reduce algo hierarchical_shards radix 0 block 128K ranks 2 nodes 1 cores 2 transport shm bytes 256K us 49.97
anchor collective all_reduce algo hierarchical_shards radix 0 block 128K ranks 2 nodes 1 cores 2 transport shm bytes 1M us 215.3
anchor collective all_reduce algo hierarchical_shards radix 0 block 128K ranks 2 nodes 1 cores 2 transport shm bytes 8M us 2193
anchor collective all_reduce algo knomial radix 0 block 128K ranks 2 nodes 1 cores 2 transport shm bytes 8 us 0.5522
anchor collective all_reduce algo knomial radix 0 block 128K ranks 2 nodes 1 cores 2 transport shm bytes 512 us 1.221
anchor collective all_reduce algo knomial radix 0 block 128K ranks 2 nodes 1 cores 2 transport shm bytes 4K us 3.223
anchor collective all_reduce algo knomial radix 0 block 128K ranks 2 nodes 1 cores 2 transport shm bytes 16K us 8.393
anchor collective all_reduce algo knomial radix 0 block 128K ranks 2 nodes 1 cores 2 transport shm bytes 64K us 21.71
anchor collective all_reduce algo knomial radix 0 block 128K ranks 2 nodes 1 cores 2 transport shm bytes 256K us 56.99
anchor collective all_reduce algo knomial radix 0 block 128K ranks 2 nodes 1 cores 2 transport shm bytes 1M us 243.9
anchor collective all_reduce algo knomial radix 0 block 128K ranks 2 nodes 1 cores 2 transport shm bytes 8M us 2087
anchor collective all_reduce algo one_shot radix 0 block 128K ranks 2 nodes 1 cores 2 transport shm bytes 8 us 0.378
anchor collective all_reduce algo one_shot radix 0 block 128K ranks 2 nodes 1 cores 2 transport shm bytes 512 us 0.6418
anchor collective all_reduce algo one_shot radix 0 block 128K ranks 2 nodes 1 cores 2 transport shm bytes 4K us 1.801
anchor collective all_reduce algo one_shot radix 0 block 128K ranks 2 nodes 1 cores 2 transport shm bytes 16K us 4.466
anchor collective all_reduce algo one_shot radix 0 block 128K ranks 2 nodes 1 cores 2 transport shm bytes 64K us 15.88
anchor collective all_reduce algo one_shot radix 0 block 128K ranks 2 nodes 1 cores 2 transport shm bytes 256K us 60.77
anchor collective all_reduce algo one_shot radix 0 block 128K ranks 2 nodes 1 cores 2 transport shm bytes 1M us 330.5
anchor collective all_reduce algo one_shot radix 0 block 128K ranks 2 nodes 1 cores 2 transport shm bytes 8M us 2669
anchor collective all_reduce algo recursive_doubling radix 0 block 128K ranks 2 nodes 1 cores 2 transport shm bytes 8 us 0.3895
anchor collective all_reduce algo recursive_doubling radix 0 block 128K ranks 2 nodes 1 cores 2 transport shm bytes 512 us 0.6665
anchor collective all_reduce algo recursive_doubling radix 0 block 128K ranks 2 nodes 1 cores 2 transport shm bytes 4K us 1.752
anchor collective all_reduce algo recursive_doubling radix 0 block 128K ranks 2 nodes 1 cores 2 transport shm bytes 16K us 4.56
anchor collective all_reduce algo recursive_doubling radix 0 block 128K ranks 2 nodes 1 cores 2 transport shm bytes 64K us 16.23
anchor collective all_reduce algo recursive_doubling radix 0 block 128K ranks 2 nodes 1 cores 2 transport shm bytes 256K us 60
anchor collective all_reduce algo recursive_doubling radix 0 block 128K ranks 2 nodes 1 cores 2 transport shm bytes 1M us 278.7
anchor collective all_reduce algo recursive_doubling radix 0 block 128K ranks 2 nodes 1 cores 2 transport shm bytes 8M us 2701
anchor collective all_reduce algo recursive_multiplying radix 0 block 128K ranks 2 nodes 1 cores 2 transport shm bytes 8 us 0.3779
anchor collective all_reduce algo recursive_multiplying radix 0 block 128K ranks 2 nodes 1 cores 2 transport shm bytes 512 us 0.7166
anchor collective all_reduce algo recursive_multiplying radix 0 block 128K ranks 2 nodes 1 cores 2 transport shm bytes 4K us 1.768
anchor collective all_reduce algo recursive_multiplying radix 0 block 128K ranks 2 nodes 1 cores 2 transport shm bytes 16K us 4.568
anchor collective all_reduce algo recursive_multiplying radix 0 block 128K ranks 2 nodes 1 cores 2 transport shm bytes 64K us 15.23
anchor collective all_reduce algo recursive_multiplying radix 0 block 128K ranks 2 nodes 1 cores 2 transport shm bytes 256K us 58.04
anchor collective all_reduce algo recursive_multiplying radix 0 block 128K ranks 2 nodes 1 cores 2 transport shm bytes 1M us 293.8
anchor collective all_reduce algo recursive_multiplying radix 0 block 128K ranks 2 nodes 1 cores 2 transport shm bytes 8M us 2718
anchor collective all_reduce algo ring radix 0 block 128K ranks 2 nodes 1 cores 2 transport shm bytes 8 us 0.6271
anchor collective all_reduce algo ring radix 0 block 128K ranks 2 nodes 1 cores 2 transport shm bytes 512 us 1.099
anchor collective all_reduce algo ring radix 0 block 128K ranks 2 nodes 1 cores 2 transport shm bytes 4K us 2.66
anchor collective all_reduce algo ring radix 0 block 128K ranks 2 nodes 1 cores 2 transport shm bytes 16K us 5.507
anchor collective all_reduce algo ring radix 0 block 128K ranks 2 nodes 1 cores 2 transport shm bytes 64K us 14.22
anchor collective all_reduce algo ring radix 0 block 128K ranks 2 nodes 1 cores 2 transport shm bytes 256K us 51.75
anchor collective all_reduce algo ring radix 0 block 128K ranks 2 nodes 1 cores 2 transport shm bytes 1M us 208.2
anchor collective all_reduce algo ring radix 0 block 128K ranks 2 nodes 1 cores 2 transport shm bytes 8M us 2105
anchor collective all_reduce algo star radix 0 block 128K ranks 2 nodes 1 cores 2 transport shm bytes 8 us 0.6191
anchor collective all_reduce algo star radix 0 block 128K ranks 2 nodes 1 cores 2 transport shm bytes 512 us 1.227
anchor collective all_reduce algo star radix 0 block 128K ranks 2 nodes 1 cores 2 transport shm bytes 4K us 3.145
anchor collective all_reduce algo star radix 0 block 128K ranks 2 nodes 1 cores 2 transport shm bytes 16K us 8.629
anchor collective all_reduce algo star radix 0 block 128K ranks 2 nodes 1 cores 2 transport shm bytes 64K us 22.01
anchor collective all_reduce algo star radix 0 block 128K ranks 2 nodes 1 cores 2 transport shm bytes 256K us 58.59
anchor collective all_reduce algo star radix 0 block 128K ranks 2 nodes 1 cores 2 transport shm bytes 1M us 221.6
anchor collective all_reduce algo star radix 0 block 128K ranks 2 nodes 1 cores 2 transport shm bytes 8M us 2059
anchor collective broadcast algo binary_tree radix 0 block 128K ranks 2 nodes 1 cores 2 transport shm bytes 8 us 0.4583
anchor collective broadcast algo binary_tree radix 0 block 128K ranks 2 nodes 1 cores 2 transport shm bytes 16K us 4.212
anchor collective broadcast algo binary_tree radix 0 block 128K ranks 2 nodes 1 cores 2 transport shm bytes 1M us 110
anchor collective broadcast algo chain radix 0 block 128K ranks 2 nodes 1 cores 2 transport shm bytes 8 us 0.481
anchor collective broadcast algo chain radix 0 block 128K ranks 2 nodes 1 cores 2 transport shm bytes 16K us 4.211
anchor collective broadcast algo chain radix 0 block 128K ranks 2 nodes 1 cores 2 transport shm bytes 1M us 109.1
anchor collective broadcast algo double_tree radix 0 block 128K ranks 2 nodes 1 cores 2 transport shm bytes 8 us 0.5497
anchor collective broadcast algo double_tree radix 0 block 128K ranks 2 nodes 1 cores 2 transport shm bytes 16K us 3.967
anchor collective broadcast algo double_tree radix 0 block 128K ranks 2 nodes 1 cores 2 transport shm bytes 1M us 108.4
anchor collective broadcast algo knomial radix 0 block 128K ranks 2 nodes 1 cores 2 transport shm bytes 8 us 0.4372
anchor collective broadcast algo knomial radix 0 block 128K ranks 2 nodes 1 cores 2 transport shm bytes 16K us 4.256
anchor collective broadcast algo knomial radix 0 block 128K ranks 2 nodes 1 cores 2 transport shm bytes 1M us 107.5
anchor collective broadcast algo scatter_allgather radix 0 block 128K ranks 2 nodes 1 cores 2 transport shm bytes 8 us 0.5834
anchor collective broadcast algo scatter_allgather radix 0 block 128K ranks 2 nodes 1 cores 2 transport shm bytes 16K us 3.967
anchor collective broadcast algo scatter_allgather radix 0 block 128K ranks 2 nodes 1 cores 2 transport shm bytes 1M us 108.1
anchor collective broadcast algo star radix 0 block 128K ranks 2 nodes 1 cores 2 transport shm bytes 8 us 0.4392
anchor collective broadcast algo star radix 0 block 128K ranks 2 nodes 1 cores 2 transport shm bytes 16K us 4.36
anchor collective broadcast algo star radix 0 block 128K ranks 2 nodes 1 cores 2 transport shm bytes 1M us 107.9
anchor collective reduce_scatter algo circulant radix 0 block 128K ranks 2 nodes 1 cores 2 transport shm bytes 8 us 0.4469
anchor collective reduce_scatter algo circulant radix 0 block 128K ranks 2 nodes 1 cores 2 transport shm bytes 4K us 1.826
anchor collective reduce_scatter algo circulant radix 0 block 128K ranks 2 nodes 1 cores 2 transport shm bytes 128K us 25.1
anchor collective reduce_scatter algo direct radix 0 block 128K ranks 2 nodes 1 cores 2 transport shm bytes 8 us 0.5096
anchor collective reduce_scatter algo direct radix 0 block 128K ranks 2 nodes 1 cores 2 transport shm bytes 4K us 1.729
anchor collective reduce_scatter algo direct radix 0 block 128K ranks 2 nodes 1 cores 2 transport shm bytes 128K us 25.41
anchor collective reduce_scatter algo ring radix 0 block 128K ranks 2 nodes 1 cores 2 transport shm bytes 8 us 0.4311
anchor collective reduce_scatter algo ring radix 0 block 128K ranks 2 nodes 1 cores 2 transport shm bytes 4K us 1.759
anchor collective reduce_scatter algo ring radix 0 block 128K ranks 2 nodes 1 cores 2 transport shm bytes 128K us 25.99
anchor collective all_gather algo circulant radix 0 block 128K ranks 2 nodes 1 cores 2 transport shm bytes 8 us 0.6013
anchor collective all_gather algo circulant radix 0 block 128K ranks 2 nodes 1 cores 2 transport shm bytes 4K us 2.54
anchor collective all_gather algo circulant radix 0 block 128K ranks 2 nodes 1 cores 2 transport shm bytes 128K us 28.83
anchor collective all_gather algo direct radix 0 block 128K ranks 2 nodes 1 cores 2 transport shm bytes 8 us 0.6143
anchor collective all_gather algo direct radix 0 block 128K ranks 2 nodes 1 cores 2 transport shm bytes 4K us 2.585
anchor collective all_gather algo direct radix 0 block 128K ranks 2 nodes 1 cores 2 transport shm bytes 128K us 29.91
anchor collective all_gather algo ring radix 0 block 128K ranks 2 nodes 1 cores 2 transport shm bytes 8 us 0.4728
anchor collective all_gather algo ring radix 0 block 128K ranks 2 nodes 1 cores 2 transport shm bytes 4K us 1.853
anchor collective all_gather algo ring radix 0 block 128K ranks 2 nodes 1 cores 2 transport shm bytes 128K us 23.93
anchor collective all_reduce algo binary_blocks radix 0 block 128K ranks 4 nodes 1 cores 2 transport shm bytes 8 us 4.769
anchor collective all_reduce algo binary_blocks radix 0 block 128K ranks 4 nodes 1 cores 2 transport shm bytes 512 us 6.49
anchor collective all_reduce algo binary_blocks radix 0 block 128K ranks 4 nodes 1 cores 2 transport shm bytes 4K us 7.765
anchor collective all_reduce algo binary_blocks radix 0 block 128K ranks 4 nodes 1 cores 2 transport shm bytes 16K us 13.48
anchor collective all_reduce algo binary_blocks radix 0 block 128K ranks 4 nodes 1 cores 2 transport shm bytes 64K us 30.93
anchor collective all_reduce algo binary_blocks radix 0 block 128K ranks 4 nodes 1 cores 2 transport shm bytes 256K us 108.4
anchor collective all_reduce algo binary_blocks radix 0 block 128K ranks 4 nodes 1 cores 2 transport shm bytes 1M us 583.1
anchor collective all_reduce algo binary_blocks radix 0 block 128K ranks 4 nodes 1 cores 2 transport shm bytes 8M us 5722
anchor collective all_reduce algo binary_blocks_whole radix 0 block 128K ranks 4 nodes 1 cores 2 transport shm bytes 8 us 2.584
anchor collective all_reduce algo binary_blocks_whole radix 0 block 128K ranks 4 nodes 1 cores 2 transport shm bytes 512 us 3.318
anchor collective all_reduce algo binary_blocks_whole radix 0 block 128K ranks 4 nodes 1 cores 2 transport shm bytes 4K us 5.418
anchor collective all_reduce algo binary_blocks_whole radix 0 block 128K ranks 4 nodes 1 cores 2 transport shm bytes 16K us 13
anchor collective all_reduce algo binary_blocks_whole radix 0 block 128K ranks 4 nodes 1 cores 2 transport shm bytes 64K us 40.87
anchor collective all_reduce algo binary_blocks_whole radix 0 block 128K ranks 4 nodes 1 cores 2 transport shm bytes 256K us 205.1
anchor collective all_reduce algo binary_blocks_whole radix 0 block 128K ranks 4 nodes 1 cores 2 transport shm bytes 1M us 975
anchor collective all_reduce algo binary_blocks_whole radix 0 block 128K ranks 4 nodes 1 cores 2 transport shm bytes 8M us 8039
anchor collective all_reduce algo binary_tree radix 0 block 64K ranks 4 nodes 1 cores 2 transport shm bytes 256K us 131.4
anchor collective all_reduce algo binary_tree radix 0 block 64K ranks 4 nodes 1 cores 2 transport shm bytes 1M us 602.1
anchor collective all_reduce algo binary_tree radix 0 block 64K ranks 4 nodes 1 cores 2 transport shm bytes 8M us 4905
anchor collective all_reduce algo binary_tree radix 0 block 128K ranks 4 nodes 1 cores 2 transport shm bytes 8 us 4.532
anchor collective all_reduce algo binary_tree radix 0 block 128K ranks 4 nodes 1 cores 2 transport shm bytes 512 us 5.202
anchor collective all_reduce algo binary_tree radix 0 block 128K ranks 4 nodes 1 cores 2 transport shm bytes 4K us 7.675
anchor collective all_reduce algo binary_tree radix 0 block 128K ranks 4 nodes 1 cores 2 transport shm bytes 16K us 16.4
anchor collective all_reduce algo binary_tree radix 0 block 128K ranks 4 nodes 1 cores 2 transport shm bytes 64K us 36.73
anchor collective all_reduce algo binary_tree radix 0 block 128K ranks 4 nodes 1 cores 2 transport shm bytes 256K us 116.9
anchor collective all_reduce algo binary_tree radix 0 block 128K ranks 4 nodes 1 cores 2 transport shm bytes 1M us 587.8
anchor collective all_reduce algo binary_tree radix 0 block 128K ranks 4 nodes 1 cores 2 transport shm bytes 8M us 4898
anchor collective all_reduce algo binary_tree radix 0 block 256K ranks 4 nodes 1 cores 2 transport shm bytes 256K us 130.7
anchor collective all_reduce algo binary_tree radix 0 block 256K ranks 4 nodes 1 cores 2 transport shm bytes 1M us 628.9
anchor collective all_reduce algo binary_tree radix 0 block 256K ranks 4 nodes 1 cores 2 transport shm bytes 8M us 5777
anchor collective all_reduce algo binary_tree radix 0 block 512K ranks 4 nodes 1 cores 2 transport shm bytes 256K us 131.5
anchor collective all_reduce algo binary_tree radix 0 block 512K ranks 4 nodes 1 cores 2 transport shm bytes 1M us 746.5
anchor collective all_reduce algo binary_tree radix 0 block 512K ranks 4 nodes 1 cores 2 transport shm bytes 8M us 6767
anchor collective all_reduce algo circulant radix 0 block 128K ranks 4 nodes 1 cores 2 transport shm bytes 8 us 7.349
anchor collective all_reduce algo circulant radix 0 block 128K ranks 4 nodes 1 cores 2 transport shm bytes 512 us 7.695
anchor collective all_reduce algo circulant radix 0 block 128K ranks 4 nodes 1 cores 2 transport shm bytes 4K us 11.11
anchor collective all_reduce algo circulant radix 0 block 128K ranks 4 nodes 1 cores 2 transport shm bytes 16K us 19.21
anchor collective all_reduce algo circulant radix 0 block 128K ranks 4 nodes 1 cores 2 transport shm bytes 64K us 40.73
anchor collective all_reduce algo circulant radix 0 block 128K ranks 4 nodes 1 cores 2 transport shm bytes 256K us 136.6
anchor collective all_reduce algo circulant radix 0 block 128K ranks 4 nodes 1 cores 2 transport shm bytes 1M us 641.9
anchor collective all_reduce algo circulant radix 0 block 128K ranks 4 nodes 1 cores 2 transport shm bytes 8M us 6237
anchor collective all_reduce algo direct radix 0 block 64K ranks 4 nodes 1 cores 2 transport shm bytes 1M us 487.2
anchor collective all_reduce algo direct radix 0 block 64K ranks 4 nodes 1 cores 2 transport shm bytes 8M us 4800
anchor collective all_reduce algo direct radix 0 block 128K ranks 4 nodes 1 cores 2 transport shm bytes 8 us 4.439
anchor collective all_reduce algo direct radix 0 block 128K ranks 4 nodes 1 cores 2 transport shm bytes 512 us 5.333
anchor collective all_reduce algo direct radix 0 block 128K ranks 4 nodes 1 cores 2 transport shm bytes 4K us 7.28
anchor collective all_reduce algo direct radix 0 block 128K ranks 4 nodes 1 cores 2 transport shm bytes 16K us 13.12
anchor collective all_reduce algo direct radix 0 block 128K ranks 4 nodes 1 cores 2 transport shm bytes 64K us 28.78
anchor collective all_reduce algo direct radix 0 block 128K ranks 4 nodes 1 cores 2 transport shm bytes 256K us 97.31
anchor collective all_reduce algo direct radix 0 block 128K ranks 4 nodes 1 cores 2 transport shm bytes 1M us 456.5
anchor collective all_reduce algo direct radix 0 block 128K ranks 4 nodes 1 cores 2 transport shm bytes 8M us 4835
anchor collective all_reduce algo direct radix 0 block 256K ranks 4 nodes 1 cores 2 transport shm bytes 1M us 621.1
anchor collective all_reduce algo direct radix 0 block 256K ranks 4 nodes 1 cores 2 transport shm bytes 8M us 5085
anchor collective all_reduce algo direct radix 0 block 512K ranks 4 nodes 1 cores 2 transport shm bytes 1M us 622.5
anchor collective all_reduce algo direct radix 0 block 512K ranks 4 nodes 1 cores 2 transport shm bytes 8M us 5065
anchor collective all_reduce algo double_tree radix 0 block 128K ranks 4 nodes 1 cores 2 transport shm bytes 8 us 5.471
anchor collective all_reduce algo double_tree radix 0 block 128K ranks 4 nodes 1 cores 2 transport shm bytes 512 us 10.08
anchor collective all_reduce algo double_tree radix 0 block 128K ranks 4 nodes 1 cores 2 transport shm bytes 4K us 13.92
anchor collective all_reduce algo double_tree radix 0 block 128K ranks 4 nodes 1 cores 2 transport shm bytes 16K us 19.11
anchor collective all_reduce algo double_tree radix 0 block 128K ranks 4 nodes 1 cores 2 transport shm bytes 64K us 41.01
anchor collective all_reduce algo double_tree radix 0 block 128K ranks 4 nodes 1 cores 2 transport shm bytes 256K us 156
anchor collective all_reduce algo double_tree radix 0 block 128K ranks 4 nodes 1 cores 2 transport shm bytes 1M us 638.3
anchor collective all_reduce algo double_tree radix 0 block 128K ranks 4 nodes 1 cores 2 transport shm bytes 8M us 6080
anchor collective all_reduce algo halving_doubling radix 0 block 64K ranks 4 nodes 1 cores 2 transport shm bytes 1M us 573.7
anchor collective all_reduce algo halving_doubling radix 0 block 64K ranks 4 nodes 1 cores 2 transport shm bytes 8M us 5461
anchor collective all_reduce algo halving_doubling radix 0 block 128K ranks 4 nodes 1 cores 2 transport shm bytes 8 us 5.118
anchor collective all_reduce algo halving_doubling radix 0 block 128K ranks 4 nodes 1 cores 2 transport shm bytes 512 us 7.51
anchor collective all_reduce algo halving_doubling radix 0 block 128K ranks 4 nodes 1 cores 2 transport shm bytes 4K us 8.289
anchor collective all_reduce algo halving_doubling radix 0 block 128K ranks 4 nodes 1 cores 2 transport shm bytes 16K us 12.82
anchor collective all_reduce algo halving_doubling radix 0 block 128K ranks 4 nodes 1 cores 2 transport shm bytes 64K us 31.06
anchor collective all_reduce algo halving_doubling radix 0 block 128K ranks 4 nodes 1 cores 2 transport shm bytes 256K us 117.5
anchor collective all_reduce algo halving_doubling radix 0 block 128K ranks 4 nodes 1 cores 2 transport shm bytes 1M us 618.5
anchor collective all_reduce algo halving_doubling radix 0 block 128K ranks 4 nodes 1 cores 2 transport shm bytes 8M us 5523
anchor collective all_reduce algo halving_doubling radix 0 block 256K ranks 4 nodes 1 cores 2 transport shm bytes 1M us 529
anchor collective all_reduce algo halving_doubling radix 0 block 256K ranks 4 nodes 1 cores 2 transport shm bytes 8M us 6404
anchor collective all_reduce algo halving_doubling radix 0 block 512K ranks 4 nodes 1 cores 2 transport shm bytes 1M us 625.5
anchor collective all_reduce algo halving_doubling radix 0 block 512K ranks 4 nodes 1 cores 2 transport shm bytes 8M us 6432
anchor collective all_reduce algo hierarchical radix 0 block 128K ranks 4 nodes 1 cores 2 transport shm bytes 8 us 4.681
anchor collective all_reduce algo hierarchical radix 0 block 128K ranks 4 nodes 1 cores 2 transport shm bytes 512 us 5.361
anchor collective all_reduce algo hierarchical radix 0 block 128K ranks 4 nodes 1 cores 2 transport shm bytes 4K us 7.559
anchor collective all_reduce algo hierarchical radix 0 block 128K ranks 4 nodes 1 cores 2 transport shm bytes 16K us 12.12
anchor collective all_reduce algo hierarchical radix 0 block 128K ranks 4 nodes 1 cores 2 transport shm bytes 64K us 28.94
anchor collective all_reduce algo hierarchical radix 0 block 128K ranks 4 nodes 1 cores 2 transport shm bytes 256K us 105.8
anchor collective all_reduce algo hierarchical radix 0 block 128K ranks 4 nodes 1 cores 2 transport shm bytes 1M us 674.9
anchor collective all_reduce algo hierarchical radix 0 block 128K ranks 4 nodes 1 cores 2 transport shm bytes 8M us 5137
anchor collective all_reduce algo hierarchical_shards radix 0 block 128K ranks 4 nodes 1 cores 2 transport shm bytes 8 us 4.679
anchor collective all_reduce algo hierarchical_shards radix 0 block 128K ranks 4 nodes 1 cores 2 transport shm bytes 512 us 5.813
anchor collective all_reduce algo hierarchical_shards radix 0 block 128K ranks 4 nodes 1 cores 2 transport shm bytes 4K us 8.671
anchor collective all_reduce algo hierarchical_shards radix 0 block 128K ranks 4 nodes 1 cores 2 transport shm bytes 16K us 13.88
anchor collective all_reduce algo hierarchical_shards radix 0 block 128K ranks 4 nodes 1 cores 2 transport shm bytes 64K us 29.31
anchor collective all_reduce algo hierarchical_shards radix 0 block 128K ranks 4 nodes 1 cores 2 transport shm bytes 256K us 107.2
anchor collective all_reduce algo hierarchical_shards radix 0 block 128K ranks 4 nodes 1 cores 2 transport shm bytes 1M us 557.2
anchor collective all_reduce algo hierarchical_shards radix 0 block 128K ranks 4 nodes 1 cores 2 transport shm bytes 8M us 5683
anchor collective all_reduce algo knomial radix 0 block 128K ranks 4 nodes 1 cores 2 transport shm bytes 8 us 3.4
anchor collective all_reduce algo knomial radix 0 block 128K ranks 4 nodes 1 cores 2 transport shm bytes 512 us 4.174
anchor collective all_reduce algo knomial radix 0 block 128K ranks 4 nodes 1 cores 2 transport shm bytes 4K us 7.155
anchor collective all_reduce algo knomial radix 0 block 128K ranks 4 nodes 1 cores 2 transport shm bytes 16K us 12.93
anchor collective all_reduce algo knomial radix 0 block 128K ranks 4 nodes 1 cores 2 transport shm bytes 64K us 35.19
anchor collective all_reduce algo knomial radix 0 block 128K ranks 4 nodes 1 cores 2 transport shm bytes 256K us 116.2
anchor collective all_reduce algo knomial radix 0 block 128K ranks 4 nodes 1 cores 2 transport shm bytes 1M us 597.9
anchor collective all_reduce algo knomial radix 0 block 128K ranks 4 nodes 1 cores 2 transport shm bytes 8M us 5170
anchor collective all_reduce algo knomial radix 3 block 128K ranks 4 nodes 1 cores 2 transport shm bytes 8 us 3.425
anchor collective all_reduce algo knomial radix 3 block 128K ranks 4 nodes 1 cores 2 transport shm bytes 512 us 3.681
anchor collective all_reduce algo knomial radix 3 block 128K ranks 4 nodes 1 cores 2 transport shm bytes 4K us 6.969
anchor collective all_reduce algo knomial radix 3 block 128K ranks 4 nodes 1 cores 2 transport shm bytes 16K us 13.67
anchor collective all_reduce algo knomial radix 3 block 128K ranks 4 nodes 1 cores 2 transport shm bytes 64K us 34.37
anchor collective all_reduce algo knomial radix 3 block 128K ranks 4 nodes 1 cores 2 transport shm bytes 256K us 109.4
anchor collective all_reduce algo knomial radix 3 block 128K ranks 4 nodes 1 cores 2 transport shm bytes 1M us 561.5
anchor collective all_reduce algo knomial radix 3 block 128K ranks 4 nodes 1 cores 2 transport shm bytes 8M us 5092
anchor collective all_reduce algo one_shot radix 0 block 128K ranks 4 nodes 1 cores 2 transport shm bytes 8 us 2.252
anchor collective all_reduce algo one_shot radix 0 block 128K ranks 4 nodes 1 cores 2 transport shm bytes 512 us 2.919
anchor collective all_reduce algo one_shot radix 0 block 128K ranks 4 nodes 1 cores 2 transport shm bytes 4K us 5.631
anchor collective all_reduce algo one_shot radix 0 block 128K ranks 4 nodes 1 cores 2 transport shm bytes 16K us 13.67
anchor collective all_reduce algo one_shot radix 0 block 128K ranks 4 nodes 1 cores 2 transport shm bytes 64K us 41.55
anchor collective all_reduce algo one_shot radix 0 block 128K ranks 4 nodes 1 cores 2 transport shm bytes 256K us 182.2
anchor collective all_reduce algo one_shot radix 0 block 128K ranks 4 nodes 1 cores 2 transport shm bytes 1M us 1034
anchor collective all_reduce algo one_shot radix 0 block 128K ranks 4 nodes 1 cores 2 transport shm bytes 8M us 7615
anchor collective all_reduce algo recursive_doubling radix 0 block 128K ranks 4 nodes 1 cores 2 transport shm bytes 8 us 2.848
anchor collective all_reduce algo recursive_doubling radix 0 block 128K ranks 4 nodes 1 cores 2 transport shm bytes 512 us 3.543
anchor collective all_reduce algo recursive_doubling radix 0 block 128K ranks 4 nodes 1 cores 2 transport shm bytes 4K us 5.655
anchor collective all_reduce algo recursive_doubling radix 0 block 128K ranks 4 nodes 1 cores 2 transport shm bytes 16K us 13.14
anchor collective all_reduce algo recursive_doubling radix 0 block 128K ranks 4 nodes 1 cores 2 transport shm bytes 64K us 44.18
anchor collective all_reduce algo recursive_doubling radix 0 block 128K ranks 4 nodes 1 cores 2 transport shm bytes 256K us 232.2
anchor collective all_reduce algo recursive_doubling radix 0 block 128K ranks 4 nodes 1 cores 2 transport shm bytes 1M us 1012
anchor collective all_reduce algo recursive_doubling radix 0 block 128K ranks 4 nodes 1 cores 2 transport shm bytes 8M us 7930
anchor collective all_reduce algo recursive_multiplying radix 0 block 128K ranks 4 nodes 1 cores 2 transport shm bytes 8 us 2.546
anchor collective all_reduce algo recursive_multiplying radix 0 block 128K ranks 4 nodes 1 cores 2 transport shm bytes 512 us 3.082
anchor collective all_reduce algo recursive_multiplying radix 0 block 128K ranks 4 nodes 1 cores 2 transport shm bytes 4K us 5.574
anchor collective all_reduce algo recursive_multiplying radix 0 block 128K ranks 4 nodes 1 cores 2 transport shm bytes 16K us 12.92
anchor collective all_reduce algo recursive_multiplying radix 0 block 128K ranks 4 nodes 1 cores 2 transport shm bytes 64K us 39.8
anchor collective all_reduce algo recursive_multiplying radix 0 block 128K ranks 4 nodes 1 cores 2 transport shm bytes 256K us 185.8
anchor collective all_reduce algo recursive_multiplying radix 0 block 128K ranks 4 nodes 1 cores 2 transport shm bytes 1M us 966.6
anchor collective all_reduce algo recursive_multiplying radix 0 block 128K ranks 4 nodes 1 cores 2 transport shm bytes 8M us 7539
anchor collective all_reduce algo recursive_multiplying radix 3 block 128K ranks 4 nodes 1 cores 2 transport shm bytes 8 us 2.743
anchor collective all_reduce algo recursive_multiplying radix 3 block 128K ranks 4 nodes 1 cores 2 transport shm bytes 512 us 3.36
anchor collective all_reduce algo recursive_multiplying radix 3 block 128K ranks 4 nodes 1 cores 2 transport shm bytes 4K us 5.319
anchor collective all_reduce algo recursive_multiplying radix 3 block 128K ranks 4 nodes 1 cores 2 transport shm bytes 16K us 12.66
anchor collective all_reduce algo recursive_multiplying radix 3 block 128K ranks 4 nodes 1 cores 2 transport shm bytes 64K us 42.23
anchor collective all_reduce algo recursive_multiplying radix 3 block 128K ranks 4 nodes 1 cores 2 transport shm bytes 256K us 208.9
anchor collective all_reduce algo recursive_multiplying radix 3 block 128K ranks 4 nodes 1 cores 2 transport shm bytes 1M us 982.6
anchor collective all_reduce algo recursive_multiplying radix 3 block 128K ranks 4 nodes 1 cores 2 transport shm bytes 8M us 7954
anchor collective all_reduce algo ring radix 0 block 64K ranks 4 nodes 1 cores 2 transport shm bytes 1M us 692.3
anchor collective all_reduce algo ring radix 0 block 64K ranks 4 nodes 1 cores 2 transport shm bytes 8M us 6179
anchor collective all_reduce algo ring radix 0 block 128K ranks 4 nodes 1 cores 2 transport shm bytes 8 us 6.796
anchor collective all_reduce algo ring radix 0 block 128K ranks 4 nodes 1 cores 2 transport shm bytes 512 us 9.471
anchor collective all_reduce algo ring radix 0 block 128K ranks 4 nodes 1 cores 2 transport shm bytes 4K us 11.57
anchor collective all_reduce algo ring radix 0 block 128K ranks 4 nodes 1 cores 2 transport shm bytes 16K us 23.19
anchor collective all_reduce algo ring radix 0 block 128K ranks 4 nodes 1 cores 2 transport shm bytes 64K us 36.86
anchor collective all_reduce algo ring radix 0 block 128K ranks 4 nodes 1 cores 2 transport shm bytes 256K us 141.2
anchor collective all_reduce algo ring radix 0 block 128K ranks 4 nodes 1 cores 2 transport shm bytes 1M us 678
anchor collective all_reduce algo ring radix 0 block 128K ranks 4 nodes 1 cores 2 transport shm bytes 8M us 5699
anchor collective all_reduce algo ring radix 0 block 256K ranks 4 nodes 1 cores 2 transport shm bytes 1M us 657.5
anchor collective all_reduce algo ring radix 0 block 256K ranks 4 nodes 1 cores 2 transport shm bytes 8M us 5947
anchor collective all_reduce algo ring radix 0 block 512K ranks 4 nodes 1 cores 2 transport shm bytes 1M us 642
anchor collective all_reduce algo ring radix 0 block 512K ranks 4 nodes 1 cores 2 transport shm bytes 8M us 6412
anchor collective all_reduce algo star radix 0 block 128K ranks 4 nodes 1 cores 2 transport shm bytes 8 us 3.062
anchor collective all_reduce algo star radix 0 block 128K ranks 4 nodes 1 cores 2 transport shm bytes 512 us 3.952
anchor collective all_reduce algo star radix 0 block 128K ranks 4 nodes 1 cores 2 transport shm bytes 4K us 6.847
anchor collective all_reduce algo star radix 0 block 128K ranks 4 nodes 1 cores 2 transport shm bytes 16K us 13.54
anchor collective all_reduce algo star radix 0 block 128K ranks 4 nodes 1 cores 2 transport shm bytes 64K us 34.85
anchor collective all_reduce algo star radix 0 block 128K ranks 4 nodes 1 cores 2 transport shm bytes 256K us 112
anchor collective all_reduce algo star radix 0 block 128K ranks 4 nodes 1 cores 2 transport shm bytes 1M us 579.6
anchor collective all_reduce algo star radix 0 block 128K ranks 4 nodes 1 cores 2 transport shm bytes 8M us 5060
anchor collective broadcast algo binary_tree radix 0 block 128K ranks 4 nodes 1 cores 2 transport shm bytes 8 us 3.827
anchor collective broadcast algo binary_tree radix 0 block 128K ranks 4 nodes 1 cores 2 transport shm bytes 16K us 8.244
anchor collective broadcast algo binary_tree radix 0 block 128K ranks 4 nodes 1 cores 2 transport shm bytes 1M us 337.9
anchor collective broadcast algo chain radix 0 block 128K ranks 4 nodes 1 cores 2 transport shm bytes 8 us 7.796
anchor collective broadcast algo chain radix 0 block 128K ranks 4 nodes 1 cores 2 transport shm bytes 16K us 16.54
anchor collective broadcast algo chain radix 0 block 128K ranks 4 nodes 1 cores 2 transport shm bytes 1M us 373.7
anchor collective broadcast algo double_tree radix 0 block 128K ranks 4 nodes 1 cores 2 transport shm bytes 8 us 5.421
anchor collective broadcast algo double_tree radix 0 block 128K ranks 4 nodes 1 cores 2 transport shm bytes 16K us 11.69
anchor collective broadcast algo double_tree radix 0 block 128K ranks 4 nodes 1 cores 2 transport shm bytes 1M us 361.5
anchor collective broadcast algo knomial radix 0 block 128K ranks 4 nodes 1 cores 2 transport shm bytes 8 us 2.663
anchor collective broadcast algo knomial radix 0 block 128K ranks 4 nodes 1 cores 2 transport shm bytes 16K us 7.185
anchor collective broadcast algo knomial radix 0 block 128K ranks 4 nodes 1 cores 2 transport shm bytes 1M us 266
anchor collective broadcast algo scatter_allgather radix 0 block 128K ranks 4 nodes 1 cores 2 transport shm bytes 8 us 5.723
anchor collective broadcast algo scatter_allgather radix 0 block 128K ranks 4 nodes 1 cores 2 transport shm bytes 16K us 13.23
anchor collective broadcast algo scatter_allgather radix 0 block 128K ranks 4 nodes 1 cores 2 transport shm bytes 1M us 388.7
anchor collective broadcast algo star radix 0 block 128K ranks 4 nodes 1 cores 2 transport shm bytes 8 us 2.638
anchor collective broadcast algo star radix 0 block 128K ranks 4 nodes 1 cores 2 transport shm bytes 16K us 7.603
anchor collective broadcast algo star radix 0 block 128K ranks 4 nodes 1 cores 2 transport shm bytes 1M us 243.6
anchor collective reduce_scatter algo circulant radix 0 block 128K ranks 4 nodes 1 cores 2 transport shm bytes 8 us 5.111
anchor collective reduce_scatter algo circulant radix 0 block 128K ranks 4 nodes 1 cores 2 transport shm bytes 4K us 10.95
anchor collective reduce_scatter algo circulant radix 0 block 128K ranks 4 nodes 1 cores 2 transport shm bytes 128K us 182.3
anchor collective reduce_scatter algo direct radix 0 block 128K ranks 4 nodes 1 cores 2 transport shm bytes 8 us 3.527
anchor collective reduce_scatter algo direct radix 0 block 128K ranks 4 nodes 1 cores 2 transport shm bytes 4K us 7.804
anchor collective reduce_scatter algo direct radix 0 block 128K ranks 4 nodes 1 cores 2 transport shm bytes 128K us 141.3
anchor collective reduce_scatter algo ring radix 0 block 128K ranks 4 nodes 1 cores 2 transport shm bytes 8 us 7.446
anchor collective reduce_scatter algo ring radix 0 block 128K ranks 4 nodes 1 cores 2 transport shm bytes 4K us 12.95
anchor collective reduce_scatter algo ring radix 0 block 128K ranks 4 nodes 1 cores 2 transport shm bytes 128K us 196.7
anchor collective all_gather algo circulant radix 0 block 128K ranks 4 nodes 1 cores 2 transport shm bytes 8 us 3.898
anchor collective all_gather algo circulant radix 0 block 128K ranks 4 nodes 1 cores 2 transport shm bytes 4K us 10.84
anchor collective all_gather algo circulant radix 0 block 128K ranks 4 nodes 1 cores 2 transport shm bytes 128K us 164.6
anchor collective all_gather algo direct radix 0 block 128K ranks 4 nodes 1 cores 2 transport shm bytes 8 us 3.45
anchor collective all_gather algo direct radix 0 block 128K ranks 4 nodes 1 cores 2 transport shm bytes 4K us 7.959
anchor collective all_gather algo direct radix 0 block 128K ranks 4 nodes 1 cores 2 transport shm bytes 128K us 98.36
anchor collective all_gather algo ring radix 0 block 128K ranks 4 nodes 1 cores 2 transport shm bytes 8 us 5.459
anchor collective all_gather algo ring radix 0 block 128K ranks 4 nodes 1 cores 2 transport shm bytes 4K us 12.48
anchor collective all_gather algo ring radix 0 block 128K ranks 4 nodes 1 cores 2 transport shm bytes 128K us 153.1
anchor collective all_reduce algo binary_blocks radix 0 block 128K ranks 8 nodes 1 cores 2 transport shm bytes 8 us 16.33
anchor collective all_reduce algo binary_blocks radix 0 block 128K ranks 8 nodes 1 cores 2 transport shm bytes 512 us 24.22
anchor collective all_reduce algo binary_blocks radix 0 block 128K ranks 8 nodes 1 cores 2 transport shm bytes 4K us 86.87
anchor collective all_reduce algo binary_blocks radix 0 block 128K ranks 8 nodes 1 cores 2 transport shm bytes 16K us 46.17
anchor collective all_reduce algo binary_blocks radix 0 block 128K ranks 8 nodes 1 cores 2 transport shm bytes 64K us 103.8
anchor collective all_reduce algo binary_blocks radix 0 block 128K ranks 8 nodes 1 cores 2 transport shm bytes 256K us 341
anchor collective all_reduce algo binary_blocks radix 0 block 128K ranks 8 nodes 1 cores 2 transport shm bytes 1M us 2206
anchor collective all_reduce algo binary_blocks radix 0 block 128K ranks 8 nodes 1 cores 2 transport shm bytes 8M us 16500
anchor collective all_reduce algo binary_blocks_whole radix 0 block 128K ranks 8 nodes 1 cores 2 transport shm bytes 8 us 13.48
anchor collective all_reduce algo binary_blocks_whole radix 0 block 128K ranks 8 nodes 1 cores 2 transport shm bytes 512 us 13.92
anchor collective all_reduce algo binary_blocks_whole radix 0 block 128K ranks 8 nodes 1 cores 2 transport shm bytes 4K us 17.34
anchor collective all_reduce algo binary_blocks_whole radix 0 block 128K ranks 8 nodes 1 cores 2 transport shm bytes 16K us 47.02
anchor collective all_reduce algo binary_blocks_whole radix 0 block 128K ranks 8 nodes 1 cores 2 transport shm bytes 64K us 171.7
anchor collective all_reduce algo binary_blocks_whole radix 0 block 128K ranks 8 nodes 1 cores 2 transport shm bytes 256K us 979.3
anchor collective all_reduce algo binary_blocks_whole radix 0 block 128K ranks 8 nodes 1 cores 2 transport shm bytes 1M us 3393
anchor collective all_reduce algo binary_blocks_whole radix 0 block 128K ranks 8 nodes 1 cores 2 transport shm bytes 8M us 29080
anchor collective all_reduce algo binary_tree radix 0 block 128K ranks 8 nodes 1 cores 2 transport shm bytes 8 us 16.91
anchor collective all_reduce algo binary_tree radix 0 block 128K ranks 8 nodes 1 cores 2 transport shm bytes 512 us 17.78
anchor collective all_reduce algo binary_tree radix 0 block 128K ranks 8 nodes 1 cores 2 transport shm bytes 4K us 21.26
anchor collective all_reduce algo binary_tree radix 0 block 128K ranks 8 nodes 1 cores 2 transport shm bytes 16K us 35.64
anchor collective all_reduce algo binary_tree radix 0 block 128K ranks 8 nodes 1 cores 2 transport shm bytes 64K us 80.26
anchor collective all_reduce algo binary_tree radix 0 block 128K ranks 8 nodes 1 cores 2 transport shm bytes 256K us 404.7
anchor collective all_reduce algo binary_tree radix 0 block 128K ranks 8 nodes 1 cores 2 transport shm bytes 1M us 1343
anchor collective all_reduce algo binary_tree radix 0 block 128K ranks 8 nodes 1 cores 2 transport shm bytes 8M us 11990
anchor collective all_reduce algo circulant radix 0 block 128K ranks 8 nodes 1 cores 2 transport shm bytes 8 us 26.17
anchor collective all_reduce algo circulant radix 0 block 128K ranks 8 nodes 1 cores 2 transport shm bytes 512 us 36.12
anchor collective all_reduce algo circulant radix 0 block 128K ranks 8 nodes 1 cores 2 transport shm bytes 4K us 47.05
anchor collective all_reduce algo circulant radix 0 block 128K ranks 8 nodes 1 cores 2 transport shm bytes 16K us 56.66
anchor collective all_reduce algo circulant radix 0 block 128K ranks 8 nodes 1 cores 2 transport shm bytes 64K us 109.6
anchor collective all_reduce algo circulant radix 0 block 128K ranks 8 nodes 1 cores 2 transport shm bytes 256K us 504.1
anchor collective all_reduce algo circulant radix 0 block 128K ranks 8 nodes 1 cores 2 transport shm bytes 1M us 1754
anchor collective all_reduce algo circulant radix 0 block 128K ranks 8 nodes 1 cores 2 transport shm bytes 8M us 14900
anchor collective all_reduce algo direct radix 0 block 64K ranks 8 nodes 1 cores 2 transport shm bytes 1M us 1234
anchor collective all_reduce algo direct radix 0 block 64K ranks 8 nodes 1 cores 2 transport shm bytes 8M us 11030
anchor collective all_reduce algo direct radix 0 block 128K ranks 8 nodes 1 cores 2 transport shm bytes 8 us 10.4
anchor collective all_reduce algo direct radix 0 block 128K ranks 8 nodes 1 cores 2 transport shm bytes 512 us 18.1
anchor collective all_reduce algo direct radix 0 block 128K ranks 8 nodes 1 cores 2 transport shm bytes 4K us 23.03
anchor collective all_reduce algo direct radix 0 block 128K ranks 8 nodes 1 cores 2 transport shm bytes 16K us 42.75
anchor collective all_reduce algo direct radix 0 block 128K ranks 8 nodes 1 cores 2 transport shm bytes 64K us 84.6
anchor collective all_reduce algo direct radix 0 block 128K ranks 8 nodes 1 cores 2 transport shm bytes 256K us 292.1
anchor collective all_reduce algo direct radix 0 block 128K ranks 8 nodes 1 cores 2 transport shm bytes 1M us 1303
anchor collective all_reduce algo direct radix 0 block 128K ranks 8 nodes 1 cores 2 transport shm bytes 8M us 13070
anchor collective all_reduce algo direct radix 0 block 256K ranks 8 nodes 1 cores 2 transport shm bytes 8M us 13600
anchor collective all_reduce algo direct radix 0 block 512K ranks 8 nodes 1 cores 2 transport shm bytes 8M us 11200
anchor collective all_reduce algo double_tree radix 0 block 128K ranks 8 nodes 1 cores 2 transport shm bytes 8 us 17.81
anchor collective all_reduce algo double_tree radix 0 block 128K ranks 8 nodes 1 cores 2 transport shm bytes 512 us 44.97
anchor collective all_reduce algo double_tree radix 0 block 128K ranks 8 nodes 1 cores 2 transport shm bytes 4K us 55.1
anchor collective all_reduce algo double_tree radix 0 block 128K ranks 8 nodes 1 cores 2 transport shm bytes 16K us 53.63
anchor collective all_reduce algo double_tree radix 0 block 128K ranks 8 nodes 1 cores 2 transport shm bytes 64K us 104.7
anchor collective all_reduce algo double_tree radix 0 block 128K ranks 8 nodes 1 cores 2 transport shm bytes 256K us 2323
anchor collective all_reduce algo double_tree radix 0 block 128K ranks 8 nodes 1 cores 2 transport shm bytes 1M us 1808
anchor collective all_reduce algo double_tree radix 0 block 128K ranks 8 nodes 1 cores 2 transport shm bytes 8M us 13720
anchor collective all_reduce algo halving_doubling radix 0 block 128K ranks 8 nodes 1 cores 2 transport shm bytes 8 us 19.54
anchor collective all_reduce algo halving_doubling radix 0 block 128K ranks 8 nodes 1 cores 2 transport shm bytes 512 us 22.1
anchor collective all_reduce algo halving_doubling radix 0 block 128K ranks 8 nodes 1 cores 2 transport shm bytes 4K us 25.7
anchor collective all_reduce algo halving_doubling radix 0 block 128K ranks 8 nodes 1 cores 2 transport shm bytes 16K us 48.01
anchor collective all_reduce algo halving_doubling radix 0 block 128K ranks 8 nodes 1 cores 2 transport shm bytes 64K us 89.94
anchor collective all_reduce algo halving_doubling radix 0 block 128K ranks 8 nodes 1 cores 2 transport shm bytes 256K us 351.1
anchor collective all_reduce algo halving_doubling radix 0 block 128K ranks 8 nodes 1 cores 2 transport shm bytes 1M us 1708
anchor collective all_reduce algo halving_doubling radix 0 block 128K ranks 8 nodes 1 cores 2 transport shm bytes 8M us 17570
anchor collective all_reduce algo hierarchical radix 0 block 128K ranks 8 nodes 1 cores 2 transport shm bytes 8 us 19.08
anchor collective all_reduce algo hierarchical radix 0 block 128K ranks 8 nodes 1 cores 2 transport shm bytes 512 us 21.63
anchor collective all_reduce algo hierarchical radix 0 block 128K ranks 8 nodes 1 cores 2 transport shm bytes 4K us 26.25
anchor collective all_reduce algo hierarchical radix 0 block 128K ranks 8 nodes 1 cores 2 transport shm bytes 16K us 58.02
anchor collective all_reduce algo hierarchical radix 0 block 128K ranks 8 nodes 1 cores 2 transport shm bytes 64K us 78.98
anchor collective all_reduce algo hierarchical radix 0 block 128K ranks 8 nodes 1 cores 2 transport shm bytes 256K us 2115
anchor collective all_reduce algo hierarchical radix 0 block 128K ranks 8 nodes 1 cores 2 transport shm bytes 1M us 3130
anchor collective all_reduce algo hierarchical radix 0 block 128K ranks 8 nodes 1 cores 2 transport shm bytes 8M us 15490
anchor collective all_reduce algo hierarchical_shards radix 0 block 128K ranks 8 nodes 1 cores 2 transport shm bytes 8 us 15.88
anchor collective all_reduce algo hierarchical_shards radix 0 block 128K ranks 8 nodes 1 cores 2 transport shm bytes 512 us 26.35
anchor collective all_reduce algo hierarchical_shards radix 0 block 128K ranks 8 nodes 1 cores 2 transport shm bytes 4K us 39.24
anchor collective all_reduce algo hierarchical_shards radix 0 block 128K ranks 8 nodes 1 cores 2 transport shm bytes 16K us 58.11
anchor collective all_reduce algo hierarchical_shards radix 0 block 128K ranks 8 nodes 1 cores 2 transport shm bytes 64K us 96.86
anchor collective all_reduce algo hierarchical_shards radix 0 block 128K ranks 8 nodes 1 cores 2 transport shm bytes 256K us 435.3
anchor collective all_reduce algo hierarchical_shards radix 0 block 128K ranks 8 nodes 1 cores 2 transport shm bytes 1M us 1419
anchor collective all_reduce algo hierarchical_shards radix 0 block 128K ranks 8 nodes 1 cores 2 transport shm bytes 8M us 16940
anchor collective all_reduce algo knomial radix 0 block 64K ranks 8 nodes 1 cores 2 transport shm bytes 256K us 264.1
anchor collective all_reduce algo knomial radix 0 block 64K ranks 8 nodes 1 cores 2 transport shm bytes 1M us 1140
anchor collective all_reduce algo knomial radix 0 block 64K ranks 8 nodes 1 cores 2 transport shm bytes 8M us 10780
anchor collective all_reduce algo knomial radix 0 block 128K ranks 8 nodes 1 cores 2 transport shm bytes 8 us 10.83
anchor collective all_reduce algo knomial radix 0 block 128K ranks 8 nodes 1 cores 2 transport shm bytes 512 us 14.44
anchor collective all_reduce algo knomial radix 0 block 128K ranks 8 nodes 1 cores 2 transport shm bytes 4K us 16.43
anchor collective all_reduce algo knomial radix 0 block 128K ranks 8 nodes 1 cores 2 transport shm bytes 16K us 32.42
anchor collective all_reduce algo knomial radix 0 block 128K ranks 8 nodes 1 cores 2 transport shm bytes 64K us 80.75
anchor collective all_reduce algo knomial radix 0 block 128K ranks 8 nodes 1 cores 2 transport shm bytes 256K us 405.8
anchor collective all_reduce algo knomial radix 0 block 128K ranks 8 nodes 1 cores 2 transport shm bytes 1M us 1647
anchor collective all_reduce algo knomial radix 0 block 128K ranks 8 nodes 1 cores 2 transport shm bytes 8M us 10450
anchor collective all_reduce algo knomial radix 0 block 256K ranks 8 nodes 1 cores 2 transport shm bytes 256K us 264
anchor collective all_reduce algo knomial radix 0 block 256K ranks 8 nodes 1 cores 2 transport shm bytes 1M us 1333
anchor collective all_reduce algo knomial radix 0 block 256K ranks 8 nodes 1 cores 2 transport shm bytes 8M us 11390
anchor collective all_reduce algo knomial radix 0 block 512K ranks 8 nodes 1 cores 2 transport shm bytes 256K us 257
anchor collective all_reduce algo knomial radix 0 block 512K ranks 8 nodes 1 cores 2 transport shm bytes 1M us 1347
anchor collective all_reduce algo knomial radix 0 block 512K ranks 8 nodes 1 cores 2 transport shm bytes 8M us 13660
anchor collective all_reduce algo knomial radix 3 block 128K ranks 8 nodes 1 cores 2 transport shm bytes 8 us 17.25
anchor collective all_reduce algo knomial radix 3 block 128K ranks 8 nodes 1 cores 2 transport shm bytes 512 us 15.65
anchor collective all_reduce algo knomial radix 3 block 128K ranks 8 nodes 1 cores 2 transport shm bytes 4K us 22.64
anchor collective all_reduce algo knomial radix 3 block 128K ranks 8 nodes 1 cores 2 transport shm bytes 16K us 35.63
anchor collective all_reduce algo knomial radix 3 block 128K ranks 8 nodes 1 cores 2 transport shm bytes 64K us 98.4
anchor collective all_reduce algo knomial radix 3 block 128K ranks 8 nodes 1 cores 2 transport shm bytes 256K us 369.2
anchor collective all_reduce algo knomial radix 3 block 128K ranks 8 nodes 1 cores 2 transport shm bytes 1M us 1446
anchor collective all_reduce algo knomial radix 3 block 128K ranks 8 nodes 1 cores 2 transport shm bytes 8M us 12320
anchor collective all_reduce algo one_shot radix 0 block 128K ranks 8 nodes 1 cores 2 transport shm bytes 8 us 7.231
anchor collective all_reduce algo one_shot radix 0 block 128K ranks 8 nodes 1 cores 2 transport shm bytes 512 us 8.494
anchor collective all_reduce algo one_shot radix 0 block 128K ranks 8 nodes 1 cores 2 transport shm bytes 4K us 15.87
anchor collective all_reduce algo one_shot radix 0 block 128K ranks 8 nodes 1 cores 2 transport shm bytes 16K us 41.62
anchor collective all_reduce algo one_shot radix 0 block 128K ranks 8 nodes 1 cores 2 transport shm bytes 64K us 126.7
anchor collective all_reduce algo one_shot radix 0 block 128K ranks 8 nodes 1 cores 2 transport shm bytes 256K us 660
anchor collective all_reduce algo one_shot radix 0 block 128K ranks 8 nodes 1 cores 2 transport shm bytes 1M us 2937
anchor collective all_reduce algo one_shot radix 0 block 128K ranks 8 nodes 1 cores 2 transport shm bytes 8M us 25040
anchor collective all_reduce algo recursive_doubling radix 0 block 128K ranks 8 nodes 1 cores 2 transport shm bytes 8 us 12.32
anchor collective all_reduce algo recursive_doubling radix 0 block 128K ranks 8 nodes 1 cores 2 transport shm bytes 512 us 14.1
anchor collective all_reduce algo recursive_doubling radix 0 block 128K ranks 8 nodes 1 cores 2 transport shm bytes 4K us 18.05
anchor collective all_reduce algo recursive_doubling radix 0 block 128K ranks 8 nodes 1 cores 2 transport shm bytes 16K us 42.01
anchor collective all_reduce algo recursive_doubling radix 0 block 128K ranks 8 nodes 1 cores 2 transport shm bytes 64K us 188.6
anchor collective all_reduce algo recursive_doubling radix 0 block 128K ranks 8 nodes 1 cores 2 transport shm bytes 256K us 936.6
anchor collective all_reduce algo recursive_doubling radix 0 block 128K ranks 8 nodes 1 cores 2 transport shm bytes 1M us 5266
anchor collective all_reduce algo recursive_doubling radix 0 block 128K ranks 8 nodes 1 cores 2 transport shm bytes 8M us 50870
anchor collective all_reduce algo recursive_multiplying radix 0 block 128K ranks 8 nodes 1 cores 2 transport shm bytes 8 us 8.846
anchor collective all_reduce algo recursive_multiplying radix 0 block 128K ranks 8 nodes 1 cores 2 transport shm bytes 512 us 11.22
anchor collective all_reduce algo recursive_multiplying radix 0 block 128K ranks 8 nodes 1 cores 2 transport shm bytes 4K us 16.68
anchor collective all_reduce algo recursive_multiplying radix 0 block 128K ranks 8 nodes 1 cores 2 transport shm bytes 16K us 38.15
anchor collective all_reduce algo recursive_multiplying radix 0 block 128K ranks 8 nodes 1 cores 2 transport shm bytes 64K us 145.5
anchor collective all_reduce algo recursive_multiplying radix 0 block 128K ranks 8 nodes 1 cores 2 transport shm bytes 256K us 630.9
anchor collective all_reduce algo recursive_multiplying radix 0 block 128K ranks 8 nodes 1 cores 2 transport shm bytes 1M us 2841
anchor collective all_reduce algo recursive_multiplying radix 0 block 128K ranks 8 nodes 1 cores 2 transport shm bytes 8M us 25420
anchor collective all_reduce algo recursive_multiplying radix 3 block 128K ranks 8 nodes 1 cores 2 transport shm bytes 8 us 14.01
anchor collective all_reduce algo recursive_multiplying radix 3 block 128K ranks 8 nodes 1 cores 2 transport shm bytes 512 us 12.47
anchor collective all_reduce algo recursive_multiplying radix 3 block 128K ranks 8 nodes 1 cores 2 transport shm bytes 4K us 21.55
anchor collective all_reduce algo recursive_multiplying radix 3 block 128K ranks 8 nodes 1 cores 2 transport shm bytes 16K us 47.61
anchor collective all_reduce algo recursive_multiplying radix 3 block 128K ranks 8 nodes 1 cores 2 transport shm bytes 64K us 414.3
anchor collective all_reduce algo recursive_multiplying radix 3 block 128K ranks 8 nodes 1 cores 2 transport shm bytes 256K us 1086
anchor collective all_reduce algo recursive_multiplying radix 3 block 128K ranks 8 nodes 1 cores 2 transport shm bytes 1M us 3520
anchor collective all_reduce algo recursive_multiplying radix 3 block 128K ranks 8 nodes 1 cores 2 transport shm bytes 8M us 30200
anchor collective all_reduce algo ring radix 0 block 128K ranks 8 nodes 1 cores 2 transport shm bytes 8 us 34.37
anchor collective all_reduce algo ring radix 0 block 128K ranks 8 nodes 1 cores 2 transport shm bytes 512 us 60.07
anchor collective all_reduce algo ring radix 0 block 128K ranks 8 nodes 1 cores 2 transport shm bytes 4K us 54.83
anchor collective all_reduce algo ring radix 0 block 128K ranks 8 nodes 1 cores 2 transport shm bytes 16K us 79.31
anchor collective all_reduce algo ring radix 0 block 128K ranks 8 nodes 1 cores 2 transport shm bytes 64K us 117.4
anchor collective all_reduce algo ring radix 0 block 128K ranks 8 nodes 1 cores 2 transport shm bytes 256K us 434.6
anchor collective all_reduce algo ring radix 0 block 128K ranks 8 nodes 1 cores 2 transport shm bytes 1M us 1335
anchor collective all_reduce algo ring radix 0 block 128K ranks 8 nodes 1 cores 2 transport shm bytes 8M us 13490
anchor collective all_reduce algo star radix 0 block 64K ranks 8 nodes 1 cores 2 transport shm bytes 256K us 306.3
anchor collective all_reduce algo star radix 0 block 64K ranks 8 nodes 1 cores 2 transport shm bytes 1M us 1452
anchor collective all_reduce algo star radix 0 block 64K ranks 8 nodes 1 cores 2 transport shm bytes 8M us 10980
anchor collective all_reduce algo star radix 0 block 128K ranks 8 nodes 1 cores 2 transport shm bytes 8 us 7.583
anchor collective all_reduce algo star radix 0 block 128K ranks 8 nodes 1 cores 2 transport shm bytes 512 us 9.404
anchor collective all_reduce algo star radix 0 block 128K ranks 8 nodes 1 cores 2 transport shm bytes 4K us 15.15
anchor collective all_reduce algo star radix 0 block 128K ranks 8 nodes 1 cores 2 transport shm bytes 16K us 27.86
anchor collective all_reduce algo star radix 0 block 128K ranks 8 nodes 1 cores 2 transport shm bytes 64K us 71.54
anchor collective all_reduce algo star radix 0 block 128K ranks 8 nodes 1 cores 2 transport shm bytes 256K us 299.2
anchor collective all_reduce algo star radix 0 block 128K ranks 8 nodes 1 cores 2 transport shm bytes 1M us 1343
anchor collective all_reduce algo star radix 0 block 128K ranks 8 nodes 1 cores 2 transport shm bytes 8M us 12140
anchor collective all_reduce algo star radix 0 block 256K ranks 8 nodes 1 cores 2 transport shm bytes 256K us 265.7
anchor collective all_reduce algo star radix 0 block 256K ranks 8 nodes 1 cores 2 transport shm bytes 1M us 1231
anchor collective all_reduce algo star radix 0 block 256K ranks 8 nodes 1 cores 2 transport shm bytes 8M us 12830
anchor collective all_reduce algo star radix 0 block 512K ranks 8 nodes 1 cores 2 transport shm bytes 256K us 377.3
anchor collective all_reduce algo star radix 0 block 512K ranks 8 nodes 1 cores 2 transport shm bytes 1M us 1501
anchor collective all_reduce algo star radix 0 block 512K ranks 8 nodes 1 cores 2 transport shm bytes 8M us 12450
anchor collective broadcast algo binary_tree radix 0 block 128K ranks 8 nodes 1 cores 2 transport shm bytes 8 us 10.98
anchor collective broadcast algo binary_tree radix 0 block 128K ranks 8 nodes 1 cores 2 transport shm bytes 16K us 18.9
anchor collective broadcast algo binary_tree radix 0 block 128K ranks 8 nodes 1 cores 2 transport shm bytes 1M us 656.1
anchor collective broadcast algo chain radix 0 block 128K ranks 8 nodes 1 cores 2 transport shm bytes 8 us 29.01
anchor collective broadcast algo chain radix 0 block 128K ranks 8 nodes 1 cores 2 transport shm bytes 16K us 57.27
anchor collective broadcast algo chain radix 0 block 128K ranks 8 nodes 1 cores 2 transport shm bytes 1M us 1082
anchor collective broadcast algo double_tree radix 0 block 128K ranks 8 nodes 1 cores 2 transport shm bytes 8 us 12.46
anchor collective broadcast algo double_tree radix 0 block 128K ranks 8 nodes 1 cores 2 transport shm bytes 16K us 19.88
anchor collective broadcast algo double_tree radix 0 block 128K ranks 8 nodes 1 cores 2 transport shm bytes 1M us 640.5
anchor collective broadcast algo knomial radix 0 block 128K ranks 8 nodes 1 cores 2 transport shm bytes 8 us 11.51
anchor collective broadcast algo knomial radix 0 block 128K ranks 8 nodes 1 cores 2 transport shm bytes 16K us 18.43
anchor collective broadcast algo knomial radix 0 block 128K ranks 8 nodes 1 cores 2 transport shm bytes 1M us 510.6
anchor collective broadcast algo scatter_allgather radix 0 block 128K ranks 8 nodes 1 cores 2 transport shm bytes 8 us 12.94
anchor collective broadcast algo scatter_allgather radix 0 block 128K ranks 8 nodes 1 cores 2 transport shm bytes 16K us 31.3
anchor collective broadcast algo scatter_allgather radix 0 block 128K ranks 8 nodes 1 cores 2 transport shm bytes 1M us 908.2
anchor collective broadcast algo star radix 0 block 128K ranks 8 nodes 1 cores 2 transport shm bytes 8 us 4.715
anchor collective broadcast algo star radix 0 block 128K ranks 8 nodes 1 cores 2 transport shm bytes 16K us 8.039
anchor collective broadcast algo star radix 0 block 128K ranks 8 nodes 1 cores 2 transport shm bytes 1M us 413.2
anchor collective reduce_scatter algo circulant radix 0 block 128K ranks 8 nodes 1 cores 2 transport shm bytes 8 us 14.61
anchor collective reduce_scatter algo circulant radix 0 block 128K ranks 8 nodes 1 cores 2 transport shm bytes 4K us 34.29
anchor collective reduce_scatter algo circulant radix 0 block 128K ranks 8 nodes 1 cores 2 transport shm bytes 128K us 1000
anchor collective reduce_scatter algo direct radix 0 block 128K ranks 8 nodes 1 cores 2 transport shm bytes 8 us 10.14
anchor collective reduce_scatter algo direct radix 0 block 128K ranks 8 nodes 1 cores 2 transport shm bytes 4K us 24.37
anchor collective reduce_scatter algo direct radix 0 block 128K ranks 8 nodes 1 cores 2 transport shm bytes 128K us 647.7
anchor collective reduce_scatter algo ring radix 0 block 128K ranks 8 nodes 1 cores 2 transport shm bytes 8 us 35.51
anchor collective reduce_scatter algo ring radix 0 block 128K ranks 8 nodes 1 cores 2 transport shm bytes 4K us 50.14
anchor collective reduce_scatter algo ring radix 0 block 128K ranks 8 nodes 1 cores 2 transport shm bytes 128K us 922.6
anchor collective all_gather algo circulant radix 0 block 128K ranks 8 nodes 1 cores 2 transport shm bytes 8 us 14
anchor collective all_gather algo circulant radix 0 block 128K ranks 8 nodes 1 cores 2 transport shm bytes 4K us 37.4
anchor collective all_gather algo circulant radix 0 block 128K ranks 8 nodes 1 cores 2 transport shm bytes 128K us 6297
anchor collective all_gather algo direct radix 0 block 128K ranks 8 nodes 1 cores 2 transport shm bytes 8 us 13.01
anchor collective all_gather algo direct radix 0 block 128K ranks 8 nodes 1 cores 2 transport shm bytes 4K us 29.08
anchor collective all_gather algo direct radix 0 block 128K ranks 8 nodes 1 cores 2 transport shm bytes 128K us 408.1
anchor collective all_gather algo ring radix 0 block 128K ranks 8 nodes 1 cores 2 transport shm bytes 8 us 30.99
anchor collective all_gather algo ring radix 0 block 128K ranks 8 nodes 1 cores 2 transport shm bytes 4K us 52.15
anchor collective all_gather algo ring radix 0 block 128K ranks 8 nodes 1 cores 2 transport shm bytes 128K us 750.5
anchor collective all_reduce algo binary_blocks radix 0 block 256K ranks 2 nodes 1 cores 2 transport tcp bytes 1M us 468.3
anchor collective all_reduce algo binary_blocks radix 0 block 256K ranks 2 nodes 1 cores 2 transport tcp bytes 8M us 3983
anchor collective all_reduce algo binary_blocks radix 0 block 512K ranks 2 nodes 1 cores 2 transport tcp bytes 8 us 14.27
anchor collective all_reduce algo binary_blocks radix 0 block 512K ranks 2 nodes 1 cores 2 transport tcp bytes 512 us 14.91
anchor collective all_reduce algo binary_blocks radix 0 block 512K ranks 2 nodes 1 cores 2 transport tcp bytes 4K us 16.96
anchor collective all_reduce algo binary_blocks radix 0 block 512K ranks 2 nodes 1 cores 2 transport tcp bytes 16K us 20.74
anchor collective all_reduce algo binary_blocks radix 0 block 512K ranks 2 nodes 1 cores 2 transport tcp bytes 64K us 34.11
anchor collective all_reduce algo binary_blocks radix 0 block 512K ranks 2 nodes 1 cores 2 transport tcp bytes 256K us 117.8
anchor collective all_reduce algo binary_blocks radix 0 block 512K ranks 2 nodes 1 cores 2 transport tcp bytes 1M us 399.8
anchor collective all_reduce algo binary_blocks radix 0 block 512K ranks 2 nodes 1 cores 2 transport tcp bytes 8M us 3624
anchor collective all_reduce algo binary_blocks radix 0 block 1M ranks 2 nodes 1 cores 2 transport tcp bytes 8M us 3947
anchor collective all_reduce algo binary_blocks radix 0 block 2M ranks 2 nodes 1 cores 2 transport tcp bytes 8M us 3798
anchor collective all_reduce algo binary_blocks_whole radix 0 block 512K ranks 2 nodes 1 cores 2 transport tcp bytes 8 us 7.776
anchor collective all_reduce algo binary_blocks_whole radix 0 block 512K ranks 2 nodes 1 cores 2 transport tcp bytes 512 us 7.988
anchor collective all_reduce algo binary_blocks_whole radix 0 block 512K ranks 2 nodes 1 cores 2 transport tcp bytes 4K us 10.01
anchor collective all_reduce algo binary_blocks_whole radix 0 block 512K ranks 2 nodes 1 cores 2 transport tcp bytes 16K us 13.51
anchor collective all_reduce algo binary_blocks_whole radix 0 block 512K ranks 2 nodes 1 cores 2 transport tcp bytes 64K us 37.58
anchor collective all_reduce algo binary_blocks_whole radix 0 block 512K ranks 2 nodes 1 cores 2 transport tcp bytes 256K us 122.4
anchor collective all_reduce algo binary_blocks_whole radix 0 block 512K ranks 2 nodes 1 cores 2 transport tcp bytes 1M us 662.5
anchor collective all_reduce algo binary_blocks_whole radix 0 block 512K ranks 2 nodes 1 cores 2 transport tcp bytes 8M us 5283
anchor collective all_reduce algo binary_tree radix 0 block 512K ranks 2 nodes 1 cores 2 transport tcp bytes 8 us 10.7
anchor collective all_reduce algo binary_tree radix 0 block 512K ranks 2 nodes 1 cores 2 transport tcp bytes 512 us 11
anchor collective all_reduce algo binary_tree radix 0 block 512K ranks 2 nodes 1 cores 2 transport tcp bytes 4K us 15.09
anchor collective all_reduce algo binary_tree radix 0 block 512K ranks 2 nodes 1 cores 2 transport tcp bytes 16K us 24.07
anchor collective all_reduce algo binary_tree radix 0 block 512K ranks 2 nodes 1 cores 2 transport tcp bytes 64K us 54.71
anchor collective all_reduce algo binary_tree radix 0 block 512K ranks 2 nodes 1 cores 2 transport tcp bytes 256K us 134.4
anchor collective all_reduce algo binary_tree radix 0 block 512K ranks 2 nodes 1 cores 2 transport tcp bytes 1M us 478.3
anchor collective all_reduce algo binary_tree radix 0 block 512K ranks 2 nodes 1 cores 2 transport tcp bytes 8M us 3632
anchor collective all_reduce algo circulant radix 0 block 256K ranks 2 nodes 1 cores 2 transport tcp bytes 1M us 483.4
anchor collective all_reduce algo circulant radix 0 block 256K ranks 2 nodes 1 cores 2 transport tcp bytes 8M us 3982
anchor collective all_reduce algo circulant radix 0 block 512K ranks 2 nodes 1 cores 2 transport tcp bytes 8 us 14.26
anchor collective all_reduce algo circulant radix 0 block 512K ranks 2 nodes 1 cores 2 transport tcp bytes 512 us 15.29
anchor collective all_reduce algo circulant radix 0 block 512K ranks 2 nodes 1 cores 2 transport tcp bytes 4K us 17.25
anchor collective all_reduce algo circulant radix 0 block 512K ranks 2 nodes 1 cores 2 transport tcp bytes 16K us 20.94
anchor collective all_reduce algo circulant radix 0 block 512K ranks 2 nodes 1 cores 2 transport tcp bytes 64K us 34.82
anchor collective all_reduce algo circulant radix 0 block 512K ranks 2 nodes 1 cores 2 transport tcp bytes 256K us 121.4
anchor collective all_reduce algo circulant radix 0 block 512K ranks 2 nodes 1 cores 2 transport tcp bytes 1M us 428.8
anchor collective all_reduce algo circulant radix 0 block 512K ranks 2 nodes 1 cores 2 transport tcp bytes 8M us 3894
anchor collective all_reduce algo circulant radix 0 block 1M ranks 2 nodes 1 cores 2 transport tcp bytes 8M us 3951
anchor collective all_reduce algo circulant radix 0 block 2M ranks 2 nodes 1 cores 2 transport tcp bytes 8M us 3535
anchor collective all_reduce algo direct radix 0 block 512K ranks 2 nodes 1 cores 2 transport tcp bytes 8 us 14.64
anchor collective all_reduce algo direct radix 0 block 512K ranks 2 nodes 1 cores 2 transport tcp bytes 512 us 15.14
anchor collective all_reduce algo direct radix 0 block 512K ranks 2 nodes 1 cores 2 transport tcp bytes 4K us 17.88
anchor collective all_reduce algo direct radix 0 block 512K ranks 2 nodes 1 cores 2 transport tcp bytes 16K us 20.79
anchor collective all_reduce algo direct radix 0 block 512K ranks 2 nodes 1 cores 2 transport tcp bytes 64K us 33.32
anchor collective all_reduce algo direct radix 0 block 512K ranks 2 nodes 1 cores 2 transport tcp bytes 256K us 115.6
anchor collective all_reduce algo direct radix 0 block 512K ranks 2 nodes 1 cores 2 transport tcp bytes 1M us 418.3
anchor collective all_reduce algo direct radix 0 block 512K ranks 2 nodes 1 cores 2 transport tcp bytes 8M us 3779
anchor collective all_reduce algo double_tree radix 0 block 256K ranks 2 nodes 1 cores 2 transport tcp bytes 1M us 482.3
anchor collective all_reduce algo double_tree radix 0 block 256K ranks 2 nodes 1 cores 2 transport tcp bytes 8M us 3478
anchor collective all_reduce algo double_tree radix 0 block 512K ranks 2 nodes 1 cores 2 transport tcp bytes 8 us 17.37
anchor collective all_reduce algo double_tree radix 0 block 512K ranks 2 nodes 1 cores 2 transport tcp bytes 512 us 19.9
anchor collective all_reduce algo double_tree radix 0 block 512K ranks 2 nodes 1 cores 2 transport tcp bytes 4K us 23.79
anchor collective all_reduce algo double_tree radix 0 block 512K ranks 2 nodes 1 cores 2 transport tcp bytes 16K us 27.96
anchor collective all_reduce algo double_tree radix 0 block 512K ranks 2 nodes 1 cores 2 transport tcp bytes 64K us 48.24
anchor collective all_reduce algo double_tree radix 0 block 512K ranks 2 nodes 1 cores 2 transport tcp bytes 256K us 141.3
anchor collective all_reduce algo double_tree radix 0 block 512K ranks 2 nodes 1 cores 2 transport tcp bytes 1M us 411.8
anchor collective all_reduce algo double_tree radix 0 block 512K ranks 2 nodes 1 cores 2 transport tcp bytes 8M us 3587
anchor collective all_reduce algo double_tree radix 0 block 1M ranks 2 nodes 1 cores 2 transport tcp bytes 8M us 3982
anchor collective all_reduce algo double_tree radix 0 block 2M ranks 2 nodes 1 cores 2 transport tcp bytes 8M us 4154
anchor collective all_reduce algo halving_doubling radix 0 block 256K ranks 2 nodes 1 cores 2 transport tcp bytes 1M us 460.3
anchor collective all_reduce algo halving_doubling radix 0 block 256K ranks 2 nodes 1 cores 2 transport tcp bytes 8M us 3912
anchor collective all_reduce algo halving_doubling radix 0 block 512K ranks 2 nodes 1 cores 2 transport tcp bytes 8 us 15.01
anchor collective all_reduce algo halving_doubling radix 0 block 512K ranks 2 nodes 1 cores 2 transport tcp bytes 512 us 14.76
anchor collective all_reduce algo halving_doubling radix 0 block 512K ranks 2 nodes 1 cores 2 transport tcp bytes 4K us 16.85
anchor collective all_reduce algo halving_doubling radix 0 block 512K ranks 2 nodes 1 cores 2 transport tcp bytes 16K us 20.48
anchor collective all_reduce algo halving_doubling radix 0 block 512K ranks 2 nodes 1 cores 2 transport tcp bytes 64K us 35.51
anchor collective all_reduce algo halving_doubling radix 0 block 512K ranks 2 nodes 1 cores 2 transport tcp bytes 256K us 108.9
anchor collective all_reduce algo halving_doubling radix 0 block 512K ranks 2 nodes 1 cores 2 transport tcp bytes 1M us 408.2
anchor collective all_reduce algo halving_doubling radix 0 block 512K ranks 2 nodes 1 cores 2 transport tcp bytes 8M us 3795
anchor collective all_reduce algo halving_doubling radix 0 block 1M ranks 2 nodes 1 cores 2 transport tcp bytes 8M us 3772
anchor collective all_reduce algo halving_doubling radix 0 block 2M ranks 2 nodes 1 cores 2 transport tcp bytes 8M us 3972
anchor collective all_reduce algo hierarchical radix 0 block 512K ranks 2 nodes 1 cores 2 transport tcp bytes 8 us 14.96
anchor collective all_reduce algo hierarchical radix 0 block 512K ranks 2 nodes 1 cores 2 transport tcp bytes 512 us 15.14
anchor collective all_reduce algo hierarchical radix 0 block 512K ranks 2 nodes 1 cores 2 transport tcp bytes 4K us 17.58
anchor collective all_reduce algo hierarchical radix 0 block 512K ranks 2 nodes 1 cores 2 transport tcp bytes 16K us 21.03
anchor collective all_reduce algo hierarchical radix 0 block 512K ranks 2 nodes 1 cores 2 transport tcp bytes 64K us 34.98
anchor collective all_reduce algo hierarchical radix 0 block 512K ranks 2 nodes 1 cores 2 transport tcp bytes 256K us 114.4
anchor collective all_reduce algo hierarchical radix 0 block 512K ranks 2 nodes 1 cores 2 transport tcp bytes 1M us 406
anchor collective all_reduce algo hierarchical radix 0 block 512K ranks 2 nodes 1 cores 2 transport tcp bytes 8M us 3862
anchor collective all_reduce algo hierarchical_shards radix 0 block 256K ranks 2 nodes 1 cores 2 transport tcp bytes 1M us 449.5
anchor collective all_reduce algo hierarchical_shards radix 0 block 256K ranks 2 nodes 1 cores 2 transport tcp bytes 8M us 4001
anchor collective all_reduce algo hierarchical_shards radix 0 block 512K ranks 2 nodes 1 cores 2 transport tcp bytes 8 us 14.99
anchor collective all_reduce algo hierarchical_shards radix 0 block 512K ranks 2 nodes 1 cores 2 transport tcp bytes 512 us 14.13
anchor collective all_reduce algo hierarchical_shards radix 0 block 512K ranks 2 nodes 1 cores 2 transport tcp bytes 4K us 17.53
anchor collective all_reduce algo hierarchical_shards radix 0 block 512K ranks 2 nodes 1 cores 2 transport tcp bytes 16K us 20.45
anchor collective all_reduce algo hierarchical_shards radix 0 block 512K ranks 2 nodes 1 cores 2 transport tcp bytes 64K us 34.39
anchor collective all_reduce algo hierarchical_shards radix 0 block 512K ranks 2 nodes 1 cores 2 transport tcp bytes 256K us 116.3
anchor collective all_reduce algo hierarchical_shards radix 0 block 512K ranks 2 nodes 1 cores 2 transport tcp bytes 1M us 365
anchor collective all_reduce algo hierarchical_shards radix 0 block 512K ranks 2 nodes 1 cores 2 transport tcp bytes 8M us 3747
anchor collective all_reduce algo hierarchical_shards radix 0 block 1M ranks 2 nodes 1 cores 2 transport tcp bytes 8M us 3893
anchor collective all_reduce algo hierarchical_shards radix 0 block 2M ranks 2 nodes 1 cores 2 transport tcp bytes 8M us 3963
anchor collective all_reduce algo knomial radix 0 block 512K ranks 2 nodes 1 cores 2 transport tcp bytes 8 us 10.98
anchor collective all_reduce algo knomial radix 0 block 512K ranks 2 nodes 1 cores 2 transport tcp bytes 512 us 11.46
anchor collective all_reduce algo knomial radix 0 block 512K ranks 2 nodes 1 cores 2 transport tcp bytes 4K us 14.64
anchor collective all_reduce algo knomial radix 0 block 512K ranks 2 nodes 1 cores 2 transport tcp bytes 16K us 23.27
anchor collective all_reduce algo knomial radix 0 block 512K ranks 2 nodes 1 cores 2 transport tcp bytes 64K us 55.25
anchor collective all_reduce algo knomial radix 0 block 512K ranks 2 nodes 1 cores 2 transport tcp bytes 256K us 129.5
anchor collective all_reduce algo knomial radix 0 block 512K ranks 2 nodes 1 cores 2 transport tcp bytes 1M us 469
anchor collective all_reduce algo knomial radix 0 block 512K ranks 2 nodes 1 cores 2 transport tcp bytes 8M us 3651
anchor collective all_reduce algo one_shot radix 0 block 512K ranks 2 nodes 1 cores 2 transport tcp bytes 8 us 7.835
anchor collective all_reduce algo one_shot radix 0 block 512K ranks 2 nodes 1 cores 2 transport tcp bytes 512 us 7.473
anchor collective all_reduce algo one_shot radix 0 block 512K ranks 2 nodes 1 cores 2 transport tcp bytes 4K us 9.616
anchor collective all_reduce algo one_shot radix 0 block 512K ranks 2 nodes 1 cores 2 transport tcp bytes 16K us 13.45
anchor collective all_reduce algo one_shot radix 0 block 512K ranks 2 nodes 1 cores 2 transport tcp bytes 64K us 37.4
anchor collective all_reduce algo one_shot radix 0 block 512K ranks 2 nodes 1 cores 2 transport tcp bytes 256K us 134.8
anchor collective all_reduce algo one_shot radix 0 block 512K ranks 2 nodes 1 cores 2 transport tcp bytes 1M us 677.5
anchor collective all_reduce algo one_shot radix 0 block 512K ranks 2 nodes 1 cores 2 transport tcp bytes 8M us 5576
anchor collective all_reduce algo recursive_doubling radix 0 block 512K ranks 2 nodes 1 cores 2 transport tcp bytes 8 us 7.635
anchor collective all_reduce algo recursive_doubling radix 0 block 512K ranks 2 nodes 1 cores 2 transport tcp bytes 512 us 7.946
anchor collective all_reduce algo recursive_doubling radix 0 block 512K ranks 2 nodes 1 cores 2 transport tcp bytes 4K us 9.676
anchor collective all_reduce algo recursive_doubling radix 0 block 512K ranks 2 nodes 1 cores 2 transport tcp bytes 16K us 13.64
anchor collective all_reduce algo recursive_doubling radix 0 block 512K ranks 2 nodes 1 cores 2 transport tcp bytes 64K us 36.09
anchor collective all_reduce algo recursive_doubling radix 0 block 512K ranks 2 nodes 1 cores 2 transport tcp bytes 256K us 123
anchor collective all_reduce algo recursive_doubling radix 0 block 512K ranks 2 nodes 1 cores 2 transport tcp bytes 1M us 627.5
anchor collective all_reduce algo recursive_doubling radix 0 block 512K ranks 2 nodes 1 cores 2 transport tcp bytes 8M us 5563
anchor collective all_reduce algo recursive_multiplying radix 0 block 512K ranks 2 nodes 1 cores 2 transport tcp bytes 8 us 7.672
anchor collective all_reduce algo recursive_multiplying radix 0 block 512K ranks 2 nodes 1 cores 2 transport tcp bytes 512 us 8.301
anchor collective all_reduce algo recursive_multiplying radix 0 block 512K ranks 2 nodes 1 cores 2 transport tcp bytes 4K us 9.816
anchor collective all_reduce algo recursive_multiplying radix 0 block 512K ranks 2 nodes 1 cores 2 transport tcp bytes 16K us 13.33
anchor collective all_reduce algo recursive_multiplying radix 0 block 512K ranks 2 nodes 1 cores 2 transport tcp bytes 64K us 37
anchor collective all_reduce algo recursive_multiplying radix 0 block 512K ranks 2 nodes 1 cores 2 transport tcp bytes 256K us 118.2
anchor collective all_reduce algo recursive_multiplying radix 0 block 512K ranks 2 nodes 1 cores 2 transport tcp bytes 1M us 649.4
anchor collective all_reduce algo recursive_multiplying radix 0 block 512K ranks 2 nodes 1 cores 2 transport tcp bytes 8M us 5540
anchor collective all_reduce algo ring radix 0 block 512K ranks 2 nodes 1 cores 2 transport tcp bytes 8 us 14.56
anchor collective all_reduce algo ring radix 0 block 512K ranks 2 nodes 1 cores 2 transport tcp bytes 512 us 14.9
anchor collective all_reduce algo ring radix 0 block 512K ranks 2 nodes 1 cores 2 transport tcp bytes 4K us 17.31
anchor collective all_reduce algo ring radix 0 block 512K ranks 2 nodes 1 cores 2 transport tcp bytes 16K us 21.02
anchor collective all_reduce algo ring radix 0 block 512K ranks 2 nodes 1 cores 2 transport tcp bytes 64K us 34.44
anchor collective all_reduce algo ring radix 0 block 512K ranks 2 nodes 1 cores 2 transport tcp bytes 256K us 115.4
anchor collective all_reduce algo ring radix 0 block 512K ranks 2 nodes 1 cores 2 transport tcp bytes 1M us 375.1
anchor collective all_reduce algo ring radix 0 block 512K ranks 2 nodes 1 cores 2 transport tcp bytes 8M us 3800
anchor collective all_reduce algo star radix 0 block 256K ranks 2 nodes 1 cores 2 transport tcp bytes 1M us 471.1
anchor collective all_reduce algo star radix 0 block 256K ranks 2 nodes 1 cores 2 transport tcp bytes 8M us 3707
anchor collective all_reduce algo star radix 0 block 512K ranks 2 nodes 1 cores 2 transport tcp bytes 8 us 11.96
anchor collective all_reduce algo star radix 0 block 512K ranks 2 nodes 1 cores 2 transport tcp bytes 512 us 10.69
anchor collective all_reduce algo star radix 0 block 512K ranks 2 nodes 1 cores 2 transport tcp bytes 4K us 14.02
anchor collective all_reduce algo star radix 0 block 512K ranks 2 nodes 1 cores 2 transport tcp bytes 16K us 22.61
anchor collective all_reduce algo star radix 0 block 512K ranks 2 nodes 1 cores 2 transport tcp bytes 64K us 54.67
anchor collective all_reduce algo star radix 0 block 512K ranks 2 nodes 1 cores 2 transport tcp bytes 256K us 125.1
anchor collective all_reduce algo star radix 0 block 512K ranks 2 nodes 1 cores 2 transport tcp bytes 1M us 490.4
anchor collective all_reduce algo star radix 0 block 512K ranks 2 nodes 1 cores 2 transport tcp bytes 8M us 3679
anchor collective all_reduce algo star radix 0 block 1M ranks 2 nodes 1 cores 2 transport tcp bytes 1M us 510.6
anchor collective all_reduce algo star radix 0 block 1M ranks 2 nodes 1 cores 2 transport tcp bytes 8M us 3877
anchor collective all_reduce algo star radix 0 block 2M ranks 2 nodes 1 cores 2 transport tcp bytes 1M us 471.3
anchor collective all_reduce algo star radix 0 block 2M ranks 2 nodes 1 cores 2 transport tcp bytes 8M us 3892
anchor collective broadcast algo binary_tree radix 0 block 512K ranks 2 nodes 1 cores 2 transport tcp bytes 8 us 6.728
anchor collective broadcast algo binary_tree radix 0 block 512K ranks 2 nodes 1 cores 2 transport tcp bytes 16K us 15.47
anchor collective broadcast algo binary_tree radix 0 block 512K ranks 2 nodes 1 cores 2 transport tcp bytes 1M us 213.9
anchor collective broadcast algo chain radix 0 block 512K ranks 2 nodes 1 cores 2 transport tcp bytes 8 us 6.541
anchor collective broadcast algo chain radix 0 block 512K ranks 2 nodes 1 cores 2 transport tcp bytes 16K us 16.18
anchor collective broadcast algo chain radix 0 block 512K ranks 2 nodes 1 cores 2 transport tcp bytes 1M us 206.8
anchor collective broadcast algo double_tree radix 0 block 512K ranks 2 nodes 1 cores 2 transport tcp bytes 8 us 12.86
anchor collective broadcast algo double_tree radix 0 block 512K ranks 2 nodes 1 cores 2 transport tcp bytes 16K us 17.76
anchor collective broadcast algo double_tree radix 0 block 512K ranks 2 nodes 1 cores 2 transport tcp bytes 1M us 191.7
anchor collective broadcast algo knomial radix 0 block 512K ranks 2 nodes 1 cores 2 transport tcp bytes 8 us 6.714
anchor collective broadcast algo knomial radix 0 block 512K ranks 2 nodes 1 cores 2 transport tcp bytes 16K us 15.47
anchor collective broadcast algo knomial radix 0 block 512K ranks 2 nodes 1 cores 2 transport tcp bytes 1M us 202.2
anchor collective broadcast algo scatter_allgather radix 0 block 512K ranks 2 nodes 1 cores 2 transport tcp bytes 8 us 12.37
anchor collective broadcast algo scatter_allgather radix 0 block 512K ranks 2 nodes 1 cores 2 transport tcp bytes 16K us 17.95
anchor collective broadcast algo scatter_allgather radix 0 block 512K ranks 2 nodes 1 cores 2 transport tcp bytes 1M us 195.9
anchor collective broadcast algo star radix 0 block 512K ranks 2 nodes 1 cores 2 transport tcp bytes 8 us 6.898
anchor collective broadcast algo star radix 0 block 512K ranks 2 nodes 1 cores 2 transport tcp bytes 16K us 15.75
anchor collective broadcast algo star radix 0 block 512K ranks 2 nodes 1 cores 2 transport tcp bytes 1M us 195.4
anchor collective reduce_scatter algo circulant radix 0 block 512K ranks 2 nodes 1 cores 2 transport tcp bytes 8 us 7.37
anchor collective reduce_scatter algo circulant radix 0 block 512K ranks 2 nodes 1 cores 2 transport tcp bytes 4K us 9.551
anchor collective reduce_scatter algo circulant radix 0 block 512K ranks 2 nodes 1 cores 2 transport tcp bytes 128K us 54.96
anchor collective reduce_scatter algo direct radix 0 block 512K ranks 2 nodes 1 cores 2 transport tcp bytes 8 us 7.356
anchor collective reduce_scatter algo direct radix 0 block 512K ranks 2 nodes 1 cores 2 transport tcp bytes 4K us 9.527
anchor collective reduce_scatter algo direct radix 0 block 512K ranks 2 nodes 1 cores 2 transport tcp bytes 128K us 61.23
anchor collective reduce_scatter algo ring radix 0 block 512K ranks 2 nodes 1 cores 2 transport tcp bytes 8 us 7.495
anchor collective reduce_scatter algo ring radix 0 block 512K ranks 2 nodes 1 cores 2 transport tcp bytes 4K us 9.555
anchor collective reduce_scatter algo ring radix 0 block 512K ranks 2 nodes 1 cores 2 transport tcp bytes 128K us 56.77
anchor collective all_gather algo circulant radix 0 block 512K ranks 2 nodes 1 cores 2 transport tcp bytes 8 us 8.428
anchor collective all_gather algo circulant radix 0 block 512K ranks 2 nodes 1 cores 2 transport tcp bytes 4K us 10.05
anchor collective all_gather algo circulant radix 0 block 512K ranks 2 nodes 1 cores 2 transport tcp bytes 128K us 49.75
anchor collective all_gather algo direct radix 0 block 512K ranks 2 nodes 1 cores 2 transport tcp bytes 8 us 8.385
anchor collective all_gather algo direct radix 0 block 512K ranks 2 nodes 1 cores 2 transport tcp bytes 4K us 10.21
anchor collective all_gather algo direct radix 0 block 512K ranks 2 nodes 1 cores 2 transport tcp bytes 128K us 48.81
anchor collective all_gather algo ring radix 0 block 512K ranks 2 nodes 1 cores 2 transport tcp bytes 8 us 7.398
anchor collective all_gather algo ring radix 0 block 512K ranks 2 nodes 1 cores 2 transport tcp bytes 4K us 9.421
anchor collective all_gather algo ring radix 0 block 512K ranks 2 nodes 1 cores 2 transport tcp bytes 128K us 49.39
anchor collective all_reduce algo binary_blocks radix 0 block 256K ranks 4 nodes 1 cores 2 transport tcp bytes 8M us 9330
anchor collective all_reduce algo binary_blocks radix 0 block 512K ranks 4 nodes 1 cores 2 transport tcp bytes 8 us 22.96
anchor collective all_reduce algo binary_blocks radix 0 block 512K ranks 4 nodes 1 cores 2 transport tcp bytes 512 us 51.28
anchor collective all_reduce algo binary_blocks radix 0 block 512K ranks 4 nodes 1 cores 2 transport tcp bytes 4K us 53.82
anchor collective all_reduce algo binary_blocks radix 0 block 512K ranks 4 nodes 1 cores 2 transport tcp bytes 16K us 61.68
anchor collective all_reduce algo binary_blocks radix 0 block 512K ranks 4 nodes 1 cores 2 transport tcp bytes 64K us 83.54
anchor collective all_reduce algo binary_blocks radix 0 block 512K ranks 4 nodes 1 cores 2 transport tcp bytes 256K us 284.2
anchor collective all_reduce algo binary_blocks radix 0 block 512K ranks 4 nodes 1 cores 2 transport tcp bytes 1M us 926.7
anchor collective all_reduce algo binary_blocks radix 0 block 512K ranks 4 nodes 1 cores 2 transport tcp bytes 8M us 8834
anchor collective all_reduce algo binary_blocks radix 0 block 1M ranks 4 nodes 1 cores 2 transport tcp bytes 8M us 9127
anchor collective all_reduce algo binary_blocks radix 0 block 2M ranks 4 nodes 1 cores 2 transport tcp bytes 8M us 9664
anchor collective all_reduce algo binary_blocks_whole radix 0 block 512K ranks 4 nodes 1 cores 2 transport tcp bytes 8 us 23.03
anchor collective all_reduce algo binary_blocks_whole radix 0 block 512K ranks 4 nodes 1 cores 2 transport tcp bytes 512 us 22.75
anchor collective all_reduce algo binary_blocks_whole radix 0 block 512K ranks 4 nodes 1 cores 2 transport tcp bytes 4K us 32.14
anchor collective all_reduce algo binary_blocks_whole radix 0 block 512K ranks 4 nodes 1 cores 2 transport tcp bytes 16K us 37.99
anchor collective all_reduce algo binary_blocks_whole radix 0 block 512K ranks 4 nodes 1 cores 2 transport tcp bytes 64K us 111.2
anchor collective all_reduce algo binary_blocks_whole radix 0 block 512K ranks 4 nodes 1 cores 2 transport tcp bytes 256K us 315.7
anchor collective all_reduce algo binary_blocks_whole radix 0 block 512K ranks 4 nodes 1 cores 2 transport tcp bytes 1M us 1828
anchor collective all_reduce algo binary_blocks_whole radix 0 block 512K ranks 4 nodes 1 cores 2 transport tcp bytes 8M us 16410
anchor collective all_reduce algo binary_tree radix 0 block 512K ranks 4 nodes 1 cores 2 transport tcp bytes 8 us 21.72
anchor collective all_reduce algo binary_tree radix 0 block 512K ranks 4 nodes 1 cores 2 transport tcp bytes 512 us 21.02
anchor collective all_reduce algo binary_tree radix 0 block 512K ranks 4 nodes 1 cores 2 transport tcp bytes 4K us 25.5
anchor collective all_reduce algo binary_tree radix 0 block 512K ranks 4 nodes 1 cores 2 transport tcp bytes 16K us 34.78
anchor collective all_reduce algo binary_tree radix 0 block 512K ranks 4 nodes 1 cores 2 transport tcp bytes 64K us 91.69
anchor collective all_reduce algo binary_tree radix 0 block 512K ranks 4 nodes 1 cores 2 transport tcp bytes 256K us 259.4
anchor collective all_reduce algo binary_tree radix 0 block 512K ranks 4 nodes 1 cores 2 transport tcp bytes 1M us 1265
anchor collective all_reduce algo binary_tree radix 0 block 512K ranks 4 nodes 1 cores 2 transport tcp bytes 8M us 8579
anchor collective all_reduce algo circulant radix 0 block 512K ranks 4 nodes 1 cores 2 transport tcp bytes 8 us 37.99
anchor collective all_reduce algo circulant radix 0 block 512K ranks 4 nodes 1 cores 2 transport tcp bytes 512 us 65.62
anchor collective all_reduce algo circulant radix 0 block 512K ranks 4 nodes 1 cores 2 transport tcp bytes 4K us 67.42
anchor collective all_reduce algo circulant radix 0 block 512K ranks 4 nodes 1 cores 2 transport tcp bytes 16K us 80.49
anchor collective all_reduce algo circulant radix 0 block 512K ranks 4 nodes 1 cores 2 transport tcp bytes 64K us 131.5
anchor collective all_reduce algo circulant radix 0 block 512K ranks 4 nodes 1 cores 2 transport tcp bytes 256K us 340.9
anchor collective all_reduce algo circulant radix 0 block 512K ranks 4 nodes 1 cores 2 transport tcp bytes 1M us 1057
anchor collective all_reduce algo circulant radix 0 block 512K ranks 4 nodes 1 cores 2 transport tcp bytes 8M us 10320
anchor collective all_reduce algo direct radix 0 block 512K ranks 4 nodes 1 cores 2 transport tcp bytes 8 us 41.97
anchor collective all_reduce algo direct radix 0 block 512K ranks 4 nodes 1 cores 2 transport tcp bytes 512 us 63.64
anchor collective all_reduce algo direct radix 0 block 512K ranks 4 nodes 1 cores 2 transport tcp bytes 4K us 66.65
anchor collective all_reduce algo direct radix 0 block 512K ranks 4 nodes 1 cores 2 transport tcp bytes 16K us 79.89
anchor collective all_reduce algo direct radix 0 block 512K ranks 4 nodes 1 cores 2 transport tcp bytes 64K us 116.8
anchor collective all_reduce algo direct radix 0 block 512K ranks 4 nodes 1 cores 2 transport tcp bytes 256K us 401.7
anchor collective all_reduce algo direct radix 0 block 512K ranks 4 nodes 1 cores 2 transport tcp bytes 1M us 885
anchor collective all_reduce algo direct radix 0 block 512K ranks 4 nodes 1 cores 2 transport tcp bytes 8M us 9327
anchor collective all_reduce algo double_tree radix 0 block 512K ranks 4 nodes 1 cores 2 transport tcp bytes 8 us 45.51
anchor collective all_reduce algo double_tree radix 0 block 512K ranks 4 nodes 1 cores 2 transport tcp bytes 512 us 85.71
anchor collective all_reduce algo double_tree radix 0 block 512K ranks 4 nodes 1 cores 2 transport tcp bytes 4K us 97.43
anchor collective all_reduce algo double_tree radix 0 block 512K ranks 4 nodes 1 cores 2 transport tcp bytes 16K us 107.7
anchor collective all_reduce algo double_tree radix 0 block 512K ranks 4 nodes 1 cores 2 transport tcp bytes 64K us 147.5
anchor collective all_reduce algo double_tree radix 0 block 512K ranks 4 nodes 1 cores 2 transport tcp bytes 256K us 396.5
anchor collective all_reduce algo double_tree radix 0 block 512K ranks 4 nodes 1 cores 2 transport tcp bytes 1M us 1151
anchor collective all_reduce algo double_tree radix 0 block 512K ranks 4 nodes 1 cores 2 transport tcp bytes 8M us 12800
anchor collective all_reduce algo halving_doubling radix 0 block 256K ranks 4 nodes 1 cores 2 transport tcp bytes 8M us 9340
anchor collective all_reduce algo halving_doubling radix 0 block 512K ranks 4 nodes 1 cores 2 transport tcp bytes 8 us 22.54
anchor collective all_reduce algo halving_doubling radix 0 block 512K ranks 4 nodes 1 cores 2 transport tcp bytes 512 us 52.43
anchor collective all_reduce algo halving_doubling radix 0 block 512K ranks 4 nodes 1 cores 2 transport tcp bytes 4K us 49.62
anchor collective all_reduce algo halving_doubling radix 0 block 512K ranks 4 nodes 1 cores 2 transport tcp bytes 16K us 57.82
anchor collective all_reduce algo halving_doubling radix 0 block 512K ranks 4 nodes 1 cores 2 transport tcp bytes 64K us 93.82
anchor collective all_reduce algo halving_doubling radix 0 block 512K ranks 4 nodes 1 cores 2 transport tcp bytes 256K us 285
anchor collective all_reduce algo halving_doubling radix 0 block 512K ranks 4 nodes 1 cores 2 transport tcp bytes 1M us 948
anchor collective all_reduce algo halving_doubling radix 0 block 512K ranks 4 nodes 1 cores 2 transport tcp bytes 8M us 9318
anchor collective all_reduce algo halving_doubling radix 0 block 1M ranks 4 nodes 1 cores 2 transport tcp bytes 8M us 8617
anchor collective all_reduce algo halving_doubling radix 0 block 2M ranks 4 nodes 1 cores 2 transport tcp bytes 8M us 9531
anchor collective all_reduce algo hierarchical radix 0 block 512K ranks 4 nodes 1 cores 2 transport tcp bytes 8 us 21.46
anchor collective all_reduce algo hierarchical radix 0 block 512K ranks 4 nodes 1 cores 2 transport tcp bytes 512 us 29.99
anchor collective all_reduce algo hierarchical radix 0 block 512K ranks 4 nodes 1 cores 2 transport tcp bytes 4K us 26.63
anchor collective all_reduce algo hierarchical radix 0 block 512K ranks 4 nodes 1 cores 2 transport tcp bytes 16K us 35.72
anchor collective all_reduce algo hierarchical radix 0 block 512K ranks 4 nodes 1 cores 2 transport tcp bytes 64K us 70.45
anchor collective all_reduce algo hierarchical radix 0 block 512K ranks 4 nodes 1 cores 2 transport tcp bytes 256K us 236.1
anchor collective all_reduce algo hierarchical radix 0 block 512K ranks 4 nodes 1 cores 2 transport tcp bytes 1M us 1009
anchor collective all_reduce algo hierarchical radix 0 block 512K ranks 4 nodes 1 cores 2 transport tcp bytes 8M us 9995
anchor collective all_reduce algo hierarchical_shards radix 0 block 256K ranks 4 nodes 1 cores 2 transport tcp bytes 8M us 9348
anchor collective all_reduce algo hierarchical_shards radix 0 block 512K ranks 4 nodes 1 cores 2 transport tcp bytes 8 us 23.5
anchor collective all_reduce algo hierarchical_shards radix 0 block 512K ranks 4 nodes 1 cores 2 transport tcp bytes 512 us 44.81
anchor collective all_reduce algo hierarchical_shards radix 0 block 512K ranks 4 nodes 1 cores 2 transport tcp bytes 4K us 50.67
anchor collective all_reduce algo hierarchical_shards radix 0 block 512K ranks 4 nodes 1 cores 2 transport tcp bytes 16K us 58.91
anchor collective all_reduce algo hierarchical_shards radix 0 block 512K ranks 4 nodes 1 cores 2 transport tcp bytes 64K us 84.71
anchor collective all_reduce algo hierarchical_shards radix 0 block 512K ranks 4 nodes 1 cores 2 transport tcp bytes 256K us 261.4
anchor collective all_reduce algo hierarchical_shards radix 0 block 512K ranks 4 nodes 1 cores 2 transport tcp bytes 1M us 762.9
anchor collective all_reduce algo hierarchical_shards radix 0 block 512K ranks 4 nodes 1 cores 2 transport tcp bytes 8M us 9214
anchor collective all_reduce algo hierarchical_shards radix 0 block 1M ranks 4 nodes 1 cores 2 transport tcp bytes 8M us 9453
anchor collective all_reduce algo hierarchical_shards radix 0 block 2M ranks 4 nodes 1 cores 2 transport tcp bytes 8M us 8990
anchor collective all_reduce algo knomial radix 0 block 512K ranks 4 nodes 1 cores 2 transport tcp bytes 8 us 19.38
anchor collective all_reduce algo knomial radix 0 block 512K ranks 4 nodes 1 cores 2 transport tcp bytes 512 us 25.16
anchor collective all_reduce algo knomial radix 0 block 512K ranks 4 nodes 1 cores 2 transport tcp bytes 4K us 25.98
anchor collective all_reduce algo knomial radix 0 block 512K ranks 4 nodes 1 cores 2 transport tcp bytes 16K us 35.65
anchor collective all_reduce algo knomial radix 0 block 512K ranks 4 nodes 1 cores 2 transport tcp bytes 64K us 96.26
anchor collective all_reduce algo knomial radix 0 block 512K ranks 4 nodes 1 cores 2 transport tcp bytes 256K us 276.4
anchor collective all_reduce algo knomial radix 0 block 512K ranks 4 nodes 1 cores 2 transport tcp bytes 1M us 1373
anchor collective all_reduce algo knomial radix 0 block 512K ranks 4 nodes 1 cores 2 transport tcp bytes 8M us 11150
anchor collective all_reduce algo knomial radix 3 block 512K ranks 4 nodes 1 cores 2 transport tcp bytes 8 us 19.73
anchor collective all_reduce algo knomial radix 3 block 512K ranks 4 nodes 1 cores 2 transport tcp bytes 512 us 20.48
anchor collective all_reduce algo knomial radix 3 block 512K ranks 4 nodes 1 cores 2 transport tcp bytes 4K us 24.43
anchor collective all_reduce algo knomial radix 3 block 512K ranks 4 nodes 1 cores 2 transport tcp bytes 16K us 40.57
anchor collective all_reduce algo knomial radix 3 block 512K ranks 4 nodes 1 cores 2 transport tcp bytes 64K us 88.41
anchor collective all_reduce algo knomial radix 3 block 512K ranks 4 nodes 1 cores 2 transport tcp bytes 256K us 321.1
anchor collective all_reduce algo knomial radix 3 block 512K ranks 4 nodes 1 cores 2 transport tcp bytes 1M us 1253
anchor collective all_reduce algo knomial radix 3 block 512K ranks 4 nodes 1 cores 2 transport tcp bytes 8M us 10980
anchor collective all_reduce algo one_shot radix 0 block 512K ranks 4 nodes 1 cores 2 transport tcp bytes 8 us 33.52
anchor collective all_reduce algo one_shot radix 0 block 512K ranks 4 nodes 1 cores 2 transport tcp bytes 512 us 37.3
anchor collective all_reduce algo one_shot radix 0 block 512K ranks 4 nodes 1 cores 2 transport tcp bytes 4K us 43.77
anchor collective all_reduce algo one_shot radix 0 block 512K ranks 4 nodes 1 cores 2 transport tcp bytes 16K us 60.94
anchor collective all_reduce algo one_shot radix 0 block 512K ranks 4 nodes 1 cores 2 transport tcp bytes 64K us 143
anchor collective all_reduce algo one_shot radix 0 block 512K ranks 4 nodes 1 cores 2 transport tcp bytes 256K us 511.8
anchor collective all_reduce algo one_shot radix 0 block 512K ranks 4 nodes 1 cores 2 transport tcp bytes 1M us 2568
anchor collective all_reduce algo one_shot radix 0 block 512K ranks 4 nodes 1 cores 2 transport tcp bytes 8M us 22080
anchor collective all_reduce algo recursive_doubling radix 0 block 512K ranks 4 nodes 1 cores 2 transport tcp bytes 8 us 27.17
anchor collective all_reduce algo recursive_doubling radix 0 block 512K ranks 4 nodes 1 cores 2 transport tcp bytes 512 us 26.19
anchor collective all_reduce algo recursive_doubling radix 0 block 512K ranks 4 nodes 1 cores 2 transport tcp bytes 4K us 27.13
anchor collective all_reduce algo recursive_doubling radix 0 block 512K ranks 4 nodes 1 cores 2 transport tcp bytes 16K us 38.01
anchor collective all_reduce algo recursive_doubling radix 0 block 512K ranks 4 nodes 1 cores 2 transport tcp bytes 64K us 122.1
anchor collective all_reduce algo recursive_doubling radix 0 block 512K ranks 4 nodes 1 cores 2 transport tcp bytes 256K us 298.1
anchor collective all_reduce algo recursive_doubling radix 0 block 512K ranks 4 nodes 1 cores 2 transport tcp bytes 1M us 1702
anchor collective all_reduce algo recursive_doubling radix 0 block 512K ranks 4 nodes 1 cores 2 transport tcp bytes 8M us 16640
anchor collective all_reduce algo recursive_multiplying radix 0 block 512K ranks 4 nodes 1 cores 2 transport tcp bytes 8 us 32.15
anchor collective all_reduce algo recursive_multiplying radix 0 block 512K ranks 4 nodes 1 cores 2 transport tcp bytes 512 us 41.11
anchor collective all_reduce algo recursive_multiplying radix 0 block 512K ranks 4 nodes 1 cores 2 transport tcp bytes 4K us 40.48
anchor collective all_reduce algo recursive_multiplying radix 0 block 512K ranks 4 nodes 1 cores 2 transport tcp bytes 16K us 70.01
anchor collective all_reduce algo recursive_multiplying radix 0 block 512K ranks 4 nodes 1 cores 2 transport tcp bytes 64K us 217.5
anchor collective all_reduce algo recursive_multiplying radix 0 block 512K ranks 4 nodes 1 cores 2 transport tcp bytes 256K us 677.2
anchor collective all_reduce algo recursive_multiplying radix 0 block 512K ranks 4 nodes 1 cores 2 transport tcp bytes 1M us 2574
anchor collective all_reduce algo recursive_multiplying radix 0 block 512K ranks 4 nodes 1 cores 2 transport tcp bytes 8M us 23370
anchor collective all_reduce algo recursive_multiplying radix 3 block 512K ranks 4 nodes 1 cores 2 transport tcp bytes 8 us 22.38
anchor collective all_reduce algo recursive_multiplying radix 3 block 512K ranks 4 nodes 1 cores 2 transport tcp bytes 512 us 24.88
anchor collective all_reduce algo recursive_multiplying radix 3 block 512K ranks 4 nodes 1 cores 2 transport tcp bytes 4K us 28.83
anchor collective all_reduce algo recursive_multiplying radix 3 block 512K ranks 4 nodes 1 cores 2 transport tcp bytes 16K us 40.72
anchor collective all_reduce algo recursive_multiplying radix 3 block 512K ranks 4 nodes 1 cores 2 transport tcp bytes 64K us 90.78
anchor collective all_reduce algo recursive_multiplying radix 3 block 512K ranks 4 nodes 1 cores 2 transport tcp bytes 256K us 471.6
anchor collective all_reduce algo recursive_multiplying radix 3 block 512K ranks 4 nodes 1 cores 2 transport tcp bytes 1M us 1827
anchor collective all_reduce algo recursive_multiplying radix 3 block 512K ranks 4 nodes 1 cores 2 transport tcp bytes 8M us 16910
anchor collective all_reduce algo ring radix 0 block 256K ranks 4 nodes 1 cores 2 transport tcp bytes 8M us 9869
anchor collective all_reduce algo ring radix 0 block 512K ranks 4 nodes 1 cores 2 transport tcp bytes 8 us 69.69
anchor collective all_reduce algo ring radix 0 block 512K ranks 4 nodes 1 cores 2 transport tcp bytes 512 us 90.78
anchor collective all_reduce algo ring radix 0 block 512K ranks 4 nodes 1 cores 2 transport tcp bytes 4K us 86.02
anchor collective all_reduce algo ring radix 0 block 512K ranks 4 nodes 1 cores 2 transport tcp bytes 16K us 102.2
anchor collective all_reduce algo ring radix 0 block 512K ranks 4 nodes 1 cores 2 transport tcp bytes 64K us 163
anchor collective all_reduce algo ring radix 0 block 512K ranks 4 nodes 1 cores 2 transport tcp bytes 256K us 329.7
anchor collective all_reduce algo ring radix 0 block 512K ranks 4 nodes 1 cores 2 transport tcp bytes 1M us 959.1
anchor collective all_reduce algo ring radix 0 block 512K ranks 4 nodes 1 cores 2 transport tcp bytes 8M us 9253
anchor collective all_reduce algo ring radix 0 block 1M ranks 4 nodes 1 cores 2 transport tcp bytes 8M us 9304
anchor collective all_reduce algo ring radix 0 block 2M ranks 4 nodes 1 cores 2 transport tcp bytes 8M us 10090
anchor collective all_reduce algo star radix 0 block 512K ranks 4 nodes 1 cores 2 transport tcp bytes 8 us 19.63
anchor collective all_reduce algo star radix 0 block 512K ranks 4 nodes 1 cores 2 transport tcp bytes 512 us 19.01
anchor collective all_reduce algo star radix 0 block 512K ranks 4 nodes 1 cores 2 transport tcp bytes 4K us 29.6
anchor collective all_reduce algo star radix 0 block 512K ranks 4 nodes 1 cores 2 transport tcp bytes 16K us 36.82
anchor collective all_reduce algo star radix 0 block 512K ranks 4 nodes 1 cores 2 transport tcp bytes 64K us 85.4
anchor collective all_reduce algo star radix 0 block 512K ranks 4 nodes 1 cores 2 transport tcp bytes 256K us 294.6
anchor collective all_reduce algo star radix 0 block 512K ranks 4 nodes 1 cores 2 transport tcp bytes 1M us 1271
anchor collective all_reduce algo star radix 0 block 512K ranks 4 nodes 1 cores 2 transport tcp bytes 8M us 11190
anchor collective broadcast algo binary_tree radix 0 block 512K ranks 4 nodes 1 cores 2 transport tcp bytes 8 us 27.26
anchor collective broadcast algo binary_tree radix 0 block 512K ranks 4 nodes 1 cores 2 transport tcp bytes 16K us 34.26
anchor collective broadcast algo binary_tree radix 0 block 512K ranks 4 nodes 1 cores 2 transport tcp bytes 1M us 581.2
anchor collective broadcast algo chain radix 0 block 512K ranks 4 nodes 1 cores 2 transport tcp bytes 8 us 48.13
anchor collective broadcast algo chain radix 0 block 512K ranks 4 nodes 1 cores 2 transport tcp bytes 16K us 112.1
anchor collective broadcast algo chain radix 0 block 512K ranks 4 nodes 1 cores 2 transport tcp bytes 1M us 908.8
anchor collective broadcast algo double_tree radix 0 block 512K ranks 4 nodes 1 cores 2 transport tcp bytes 8 us 41.95
anchor collective broadcast algo double_tree radix 0 block 512K ranks 4 nodes 1 cores 2 transport tcp bytes 16K us 51.81
anchor collective broadcast algo double_tree radix 0 block 512K ranks 4 nodes 1 cores 2 transport tcp bytes 1M us 663.2
anchor collective broadcast algo knomial radix 0 block 512K ranks 4 nodes 1 cores 2 transport tcp bytes 8 us 19.81
anchor collective broadcast algo knomial radix 0 block 512K ranks 4 nodes 1 cores 2 transport tcp bytes 16K us 30.32
anchor collective broadcast algo knomial radix 0 block 512K ranks 4 nodes 1 cores 2 transport tcp bytes 1M us 499.6
anchor collective broadcast algo scatter_allgather radix 0 block 512K ranks 4 nodes 1 cores 2 transport tcp bytes 8 us 30.94
anchor collective broadcast algo scatter_allgather radix 0 block 512K ranks 4 nodes 1 cores 2 transport tcp bytes 16K us 61.01
anchor collective broadcast algo scatter_allgather radix 0 block 512K ranks 4 nodes 1 cores 2 transport tcp bytes 1M us 594.7
anchor collective broadcast algo star radix 0 block 512K ranks 4 nodes 1 cores 2 transport tcp bytes 8 us 20.53
anchor collective broadcast algo star radix 0 block 512K ranks 4 nodes 1 cores 2 transport tcp bytes 16K us 30.59
anchor collective broadcast algo star radix 0 block 512K ranks 4 nodes 1 cores 2 transport tcp bytes 1M us 517.2
anchor collective reduce_scatter algo circulant radix 0 block 512K ranks 4 nodes 1 cores 2 transport tcp bytes 8 us 33.69
anchor collective reduce_scatter algo circulant radix 0 block 512K ranks 4 nodes 1 cores 2 transport tcp bytes 4K us 46.05
anchor collective reduce_scatter algo circulant radix 0 block 512K ranks 4 nodes 1 cores 2 transport tcp bytes 128K us 359.7
anchor collective reduce_scatter algo direct radix 0 block 512K ranks 4 nodes 1 cores 2 transport tcp bytes 8 us 44.61
anchor collective reduce_scatter algo direct radix 0 block 512K ranks 4 nodes 1 cores 2 transport tcp bytes 4K us 53.18
anchor collective reduce_scatter algo direct radix 0 block 512K ranks 4 nodes 1 cores 2 transport tcp bytes 128K us 322.8
anchor collective reduce_scatter algo ring radix 0 block 512K ranks 4 nodes 1 cores 2 transport tcp bytes 8 us 53.11
anchor collective reduce_scatter algo ring radix 0 block 512K ranks 4 nodes 1 cores 2 transport tcp bytes 4K us 67.91
anchor collective reduce_scatter algo ring radix 0 block 512K ranks 4 nodes 1 cores 2 transport tcp bytes 128K us 381.1
anchor collective all_gather algo circulant radix 0 block 512K ranks 4 nodes 1 cores 2 transport tcp bytes 8 us 39.31
anchor collective all_gather algo circulant radix 0 block 512K ranks 4 nodes 1 cores 2 transport tcp bytes 4K us 50.28
anchor collective all_gather algo circulant radix 0 block 512K ranks 4 nodes 1 cores 2 transport tcp bytes 128K us 286.7
anchor collective all_gather algo direct radix 0 block 512K ranks 4 nodes 1 cores 2 transport tcp bytes 8 us 49.26
anchor collective all_gather algo direct radix 0 block 512K ranks 4 nodes 1 cores 2 transport tcp bytes 4K us 59.57
anchor collective all_gather algo direct radix 0 block 512K ranks 4 nodes 1 cores 2 transport tcp bytes 128K us 272.1
anchor collective all_gather algo ring radix 0 block 512K ranks 4 nodes 1 cores 2 transport tcp bytes 8 us 50.48
anchor collective all_gather algo ring radix 0 block 512K ranks 4 nodes 1 cores 2 transport tcp bytes 4K us 58.03
anchor collective all_gather algo ring radix 0 block 512K ranks 4 nodes 1 cores 2 transport tcp bytes 128K us 303.3
anchor collective all_reduce algo binary_blocks radix 0 block 512K ranks 8 nodes 1 cores 2 transport tcp bytes 8 us 74.9
anchor collective all_reduce algo binary_blocks radix 0 block 512K ranks 8 nodes 1 cores 2 transport tcp bytes 512 us 217.9
anchor collective all_reduce algo binary_blocks radix 0 block 512K ranks 8 nodes 1 cores 2 transport tcp bytes 4K us 216
anchor collective all_reduce algo binary_blocks radix 0 block 512K ranks 8 nodes 1 cores 2 transport tcp bytes 16K us 232.7
anchor collective all_reduce algo binary_blocks radix 0 block 512K ranks 8 nodes 1 cores 2 transport tcp bytes 64K us 285.5
anchor collective all_reduce algo binary_blocks radix 0 block 512K ranks 8 nodes 1 cores 2 transport tcp bytes 256K us 678.7
anchor collective all_reduce algo binary_blocks radix 0 block 512K ranks 8 nodes 1 cores 2 transport tcp bytes 1M us 2650
anchor collective all_reduce algo binary_blocks radix 0 block 512K ranks 8 nodes 1 cores 2 transport tcp bytes 8M us 25970
anchor collective all_reduce algo binary_blocks_whole radix 0 block 512K ranks 8 nodes 1 cores 2 transport tcp bytes 8 us 93.82
anchor collective all_reduce algo binary_blocks_whole radix 0 block 512K ranks 8 nodes 1 cores 2 transport tcp bytes 512 us 103
anchor collective all_reduce algo binary_blocks_whole radix 0 block 512K ranks 8 nodes 1 cores 2 transport tcp bytes 4K us 110
anchor collective all_reduce algo binary_blocks_whole radix 0 block 512K ranks 8 nodes 1 cores 2 transport tcp bytes 16K us 139.1
anchor collective all_reduce algo binary_blocks_whole radix 0 block 512K ranks 8 nodes 1 cores 2 transport tcp bytes 64K us 352.2
anchor collective all_reduce algo binary_blocks_whole radix 0 block 512K ranks 8 nodes 1 cores 2 transport tcp bytes 256K us 1392
anchor collective all_reduce algo binary_blocks_whole radix 0 block 512K ranks 8 nodes 1 cores 2 transport tcp bytes 1M us 9277
anchor collective all_reduce algo binary_blocks_whole radix 0 block 512K ranks 8 nodes 1 cores 2 transport tcp bytes 8M us 64550
anchor collective all_reduce algo binary_tree radix 0 block 256K ranks 8 nodes 1 cores 2 transport tcp bytes 1M us 2690
anchor collective all_reduce algo binary_tree radix 0 block 256K ranks 8 nodes 1 cores 2 transport tcp bytes 8M us 26650
anchor collective all_reduce algo binary_tree radix 0 block 512K ranks 8 nodes 1 cores 2 transport tcp bytes 8 us 75.32
anchor collective all_reduce algo binary_tree radix 0 block 512K ranks 8 nodes 1 cores 2 transport tcp bytes 512 us 73.51
anchor collective all_reduce algo binary_tree radix 0 block 512K ranks 8 nodes 1 cores 2 transport tcp bytes 4K us 79.11
anchor collective all_reduce algo binary_tree radix 0 block 512K ranks 8 nodes 1 cores 2 transport tcp bytes 16K us 90.03
anchor collective all_reduce algo binary_tree radix 0 block 512K ranks 8 nodes 1 cores 2 transport tcp bytes 64K us 213.8
anchor collective all_reduce algo binary_tree radix 0 block 512K ranks 8 nodes 1 cores 2 transport tcp bytes 256K us 563.8
anchor collective all_reduce algo binary_tree radix 0 block 512K ranks 8 nodes 1 cores 2 transport tcp bytes 1M us 2621
anchor collective all_reduce algo binary_tree radix 0 block 512K ranks 8 nodes 1 cores 2 transport tcp bytes 8M us 23890
anchor collective all_reduce algo binary_tree radix 0 block 1M ranks 8 nodes 1 cores 2 transport tcp bytes 1M us 2772
anchor collective all_reduce algo binary_tree radix 0 block 1M ranks 8 nodes 1 cores 2 transport tcp bytes 8M us 136200
anchor collective all_reduce algo binary_tree radix 0 block 2M ranks 8 nodes 1 cores 2 transport tcp bytes 1M us 2784
anchor collective all_reduce algo binary_tree radix 0 block 2M ranks 8 nodes 1 cores 2 transport tcp bytes 8M us 34210
anchor collective all_reduce algo circulant radix 0 block 512K ranks 8 nodes 1 cores 2 transport tcp bytes 8 us 134.5
anchor collective all_reduce algo circulant radix 0 block 512K ranks 8 nodes 1 cores 2 transport tcp bytes 512 us 247.1
anchor collective all_reduce algo circulant radix 0 block 512K ranks 8 nodes 1 cores 2 transport tcp bytes 4K us 275.4
anchor collective all_reduce algo circulant radix 0 block 512K ranks 8 nodes 1 cores 2 transport tcp bytes 16K us 322.7
anchor collective all_reduce algo circulant radix 0 block 512K ranks 8 nodes 1 cores 2 transport tcp bytes 64K us 407.8
anchor collective all_reduce algo circulant radix 0 block 512K ranks 8 nodes 1 cores 2 transport tcp bytes 256K us 893.3
anchor collective all_reduce algo circulant radix 0 block 512K ranks 8 nodes 1 cores 2 transport tcp bytes 1M us 3261
anchor collective all_reduce algo circulant radix 0 block 512K ranks 8 nodes 1 cores 2 transport tcp bytes 8M us 25970
anchor collective all_reduce algo direct radix 0 block 512K ranks 8 nodes 1 cores 2 transport tcp bytes 8 us 124.6
anchor collective all_reduce algo direct radix 0 block 512K ranks 8 nodes 1 cores 2 transport tcp bytes 512 us 367.2
anchor collective all_reduce algo direct radix 0 block 512K ranks 8 nodes 1 cores 2 transport tcp bytes 4K us 403.2
anchor collective all_reduce algo direct radix 0 block 512K ranks 8 nodes 1 cores 2 transport tcp bytes 16K us 414.7
anchor collective all_reduce algo direct radix 0 block 512K ranks 8 nodes 1 cores 2 transport tcp bytes 64K us 561.9
anchor collective all_reduce algo direct radix 0 block 512K ranks 8 nodes 1 cores 2 transport tcp bytes 256K us 927.6
anchor collective all_reduce algo direct radix 0 block 512K ranks 8 nodes 1 cores 2 transport tcp bytes 1M us 3468
anchor collective all_reduce algo direct radix 0 block 512K ranks 8 nodes 1 cores 2 transport tcp bytes 8M us 29890
anchor collective all_reduce algo double_tree radix 0 block 512K ranks 8 nodes 1 cores 2 transport tcp bytes 8 us 147.7
anchor collective all_reduce algo double_tree radix 0 block 512K ranks 8 nodes 1 cores 2 transport tcp bytes 512 us 361.3
anchor collective all_reduce algo double_tree radix 0 block 512K ranks 8 nodes 1 cores 2 transport tcp bytes 4K us 346.3
anchor collective all_reduce algo double_tree radix 0 block 512K ranks 8 nodes 1 cores 2 transport tcp bytes 16K us 402.6
anchor collective all_reduce algo double_tree radix 0 block 512K ranks 8 nodes 1 cores 2 transport tcp bytes 64K us 530.3
anchor collective all_reduce algo double_tree radix 0 block 512K ranks 8 nodes 1 cores 2 transport tcp bytes 256K us 818.2
anchor collective all_reduce algo double_tree radix 0 block 512K ranks 8 nodes 1 cores 2 transport tcp bytes 1M us 2780
anchor collective all_reduce algo double_tree radix 0 block 512K ranks 8 nodes 1 cores 2 transport tcp bytes 8M us 30060
anchor collective all_reduce algo halving_doubling radix 0 block 256K ranks 8 nodes 1 cores 2 transport tcp bytes 8M us 30260
anchor collective all_reduce algo halving_doubling radix 0 block 512K ranks 8 nodes 1 cores 2 transport tcp bytes 8 us 83.18
anchor collective all_reduce algo halving_doubling radix 0 block 512K ranks 8 nodes 1 cores 2 transport tcp bytes 512 us 209.3
anchor collective all_reduce algo halving_doubling radix 0 block 512K ranks 8 nodes 1 cores 2 transport tcp bytes 4K us 217.1
anchor collective all_reduce algo halving_doubling radix 0 block 512K ranks 8 nodes 1 cores 2 transport tcp bytes 16K us 278.3
anchor collective all_reduce algo halving_doubling radix 0 block 512K ranks 8 nodes 1 cores 2 transport tcp bytes 64K us 278.9
anchor collective all_reduce algo halving_doubling radix 0 block 512K ranks 8 nodes 1 cores 2 transport tcp bytes 256K us 626.4
anchor collective all_reduce algo halving_doubling radix 0 block 512K ranks 8 nodes 1 cores 2 transport tcp bytes 1M us 2514
anchor collective all_reduce algo halving_doubling radix 0 block 512K ranks 8 nodes 1 cores 2 transport tcp bytes 8M us 25670
anchor collective all_reduce algo halving_doubling radix 0 block 1M ranks 8 nodes 1 cores 2 transport tcp bytes 8M us 28510
anchor collective all_reduce algo halving_doubling radix 0 block 2M ranks 8 nodes 1 cores 2 transport tcp bytes 8M us 27140
anchor collective all_reduce algo hierarchical radix 0 block 512K ranks 8 nodes 1 cores 2 transport tcp bytes 8 us 119.4
anchor collective all_reduce algo hierarchical radix 0 block 512K ranks 8 nodes 1 cores 2 transport tcp bytes 512 us 171.8
anchor collective all_reduce algo hierarchical radix 0 block 512K ranks 8 nodes 1 cores 2 transport tcp bytes 4K us 149.3
anchor collective all_reduce algo hierarchical radix 0 block 512K ranks 8 nodes 1 cores 2 transport tcp bytes 16K us 164.1
anchor collective all_reduce algo hierarchical radix 0 block 512K ranks 8 nodes 1 cores 2 transport tcp bytes 64K us 243.8
anchor collective all_reduce algo hierarchical radix 0 block 512K ranks 8 nodes 1 cores 2 transport tcp bytes 256K us 653.6
anchor collective all_reduce algo hierarchical radix 0 block 512K ranks 8 nodes 1 cores 2 transport tcp bytes 1M us 3165
anchor collective all_reduce algo hierarchical radix 0 block 512K ranks 8 nodes 1 cores 2 transport tcp bytes 8M us 28620
anchor collective all_reduce algo hierarchical_shards radix 0 block 512K ranks 8 nodes 1 cores 2 transport tcp bytes 8 us 127.3
anchor collective all_reduce algo hierarchical_shards radix 0 block 512K ranks 8 nodes 1 cores 2 transport tcp bytes 512 us 283.8
anchor collective all_reduce algo hierarchical_shards radix 0 block 512K ranks 8 nodes 1 cores 2 transport tcp bytes 4K us 294
anchor collective all_reduce algo hierarchical_shards radix 0 block 512K ranks 8 nodes 1 cores 2 transport tcp bytes 16K us 297.1
anchor collective all_reduce algo hierarchical_shards radix 0 block 512K ranks 8 nodes 1 cores 2 transport tcp bytes 64K us 389.8
anchor collective all_reduce algo hierarchical_shards radix 0 block 512K ranks 8 nodes 1 cores 2 transport tcp bytes 256K us 729.5
anchor collective all_reduce algo hierarchical_shards radix 0 block 512K ranks 8 nodes 1 cores 2 transport tcp bytes 1M us 2700
anchor collective all_reduce algo hierarchical_shards radix 0 block 512K ranks 8 nodes 1 cores 2 transport tcp bytes 8M us 26570
anchor collective all_reduce algo knomial radix 0 block 256K ranks 8 nodes 1 cores 2 transport tcp bytes 1M us 2643
anchor collective all_reduce algo knomial radix 0 block 256K ranks 8 nodes 1 cores 2 transport tcp bytes 8M us 24610
anchor collective all_reduce algo knomial radix 0 block 512K ranks 8 nodes 1 cores 2 transport tcp bytes 8 us 64.29
anchor collective all_reduce algo knomial radix 0 block 512K ranks 8 nodes 1 cores 2 transport tcp bytes 512 us 63.85
anchor collective all_reduce algo knomial radix 0 block 512K ranks 8 nodes 1 cores 2 transport tcp bytes 4K us 64
anchor collective all_reduce algo knomial radix 0 block 512K ranks 8 nodes 1 cores 2 transport tcp bytes 16K us 95.46
anchor collective all_reduce algo knomial radix 0 block 512K ranks 8 nodes 1 cores 2 transport tcp bytes 64K us 1586
anchor collective all_reduce algo knomial radix 0 block 512K ranks 8 nodes 1 cores 2 transport tcp bytes 256K us 585.3
anchor collective all_reduce algo knomial radix 0 block 512K ranks 8 nodes 1 cores 2 transport tcp bytes 1M us 2547
anchor collective all_reduce algo knomial radix 0 block 512K ranks 8 nodes 1 cores 2 transport tcp bytes 8M us 24260
anchor collective all_reduce algo knomial radix 0 block 1M ranks 8 nodes 1 cores 2 transport tcp bytes 1M us 2737
anchor collective all_reduce algo knomial radix 0 block 1M ranks 8 nodes 1 cores 2 transport tcp bytes 8M us 163000
anchor collective all_reduce algo knomial radix 0 block 2M ranks 8 nodes 1 cores 2 transport tcp bytes 1M us 2640
anchor collective all_reduce algo knomial radix 0 block 2M ranks 8 nodes 1 cores 2 transport tcp bytes 8M us 33030
anchor collective all_reduce algo knomial radix 3 block 512K ranks 8 nodes 1 cores 2 transport tcp bytes 8 us 113.6
anchor collective all_reduce algo knomial radix 3 block 512K ranks 8 nodes 1 cores 2 transport tcp bytes 512 us 100.3
anchor collective all_reduce algo knomial radix 3 block 512K ranks 8 nodes 1 cores 2 transport tcp bytes 4K us 83.06
anchor collective all_reduce algo knomial radix 3 block 512K ranks 8 nodes 1 cores 2 transport tcp bytes 16K us 108
anchor collective all_reduce algo knomial radix 3 block 512K ranks 8 nodes 1 cores 2 transport tcp bytes 64K us 224.2
anchor collective all_reduce algo knomial radix 3 block 512K ranks 8 nodes 1 cores 2 transport tcp bytes 256K us 653.6
anchor collective all_reduce algo knomial radix 3 block 512K ranks 8 nodes 1 cores 2 transport tcp bytes 1M us 2763
anchor collective all_reduce algo knomial radix 3 block 512K ranks 8 nodes 1 cores 2 transport tcp bytes 8M us 25290
anchor collective all_reduce algo one_shot radix 0 block 512K ranks 8 nodes 1 cores 2 transport tcp bytes 8 us 193.7
anchor collective all_reduce algo one_shot radix 0 block 512K ranks 8 nodes 1 cores 2 transport tcp bytes 512 us 225.1
anchor collective all_reduce algo one_shot radix 0 block 512K ranks 8 nodes 1 cores 2 transport tcp bytes 4K us 267.7
anchor collective all_reduce algo one_shot radix 0 block 512K ranks 8 nodes 1 cores 2 transport tcp bytes 16K us 360.2
anchor collective all_reduce algo one_shot radix 0 block 512K ranks 8 nodes 1 cores 2 transport tcp bytes 64K us 961.1
anchor collective all_reduce algo one_shot radix 0 block 512K ranks 8 nodes 1 cores 2 transport tcp bytes 256K us 5018
anchor collective all_reduce algo one_shot radix 0 block 512K ranks 8 nodes 1 cores 2 transport tcp bytes 1M us 19940
anchor collective all_reduce algo one_shot radix 0 block 512K ranks 8 nodes 1 cores 2 transport tcp bytes 8M us 126700
anchor collective all_reduce algo recursive_doubling radix 0 block 512K ranks 8 nodes 1 cores 2 transport tcp bytes 8 us 92.4
anchor collective all_reduce algo recursive_doubling radix 0 block 512K ranks 8 nodes 1 cores 2 transport tcp bytes 512 us 93.51
anchor collective all_reduce algo recursive_doubling radix 0 block 512K ranks 8 nodes 1 cores 2 transport tcp bytes 4K us 191.3
anchor collective all_reduce algo recursive_doubling radix 0 block 512K ranks 8 nodes 1 cores 2 transport tcp bytes 16K us 166.4
anchor collective all_reduce algo recursive_doubling radix 0 block 512K ranks 8 nodes 1 cores 2 transport tcp bytes 64K us 400
anchor collective all_reduce algo recursive_doubling radix 0 block 512K ranks 8 nodes 1 cores 2 transport tcp bytes 256K us 4167
anchor collective all_reduce algo recursive_doubling radix 0 block 512K ranks 8 nodes 1 cores 2 transport tcp bytes 1M us 15150
anchor collective all_reduce algo recursive_doubling radix 0 block 512K ranks 8 nodes 1 cores 2 transport tcp bytes 8M us 65720
anchor collective all_reduce algo recursive_multiplying radix 0 block 512K ranks 8 nodes 1 cores 2 transport tcp bytes 8 us 106
anchor collective all_reduce algo recursive_multiplying radix 0 block 512K ranks 8 nodes 1 cores 2 transport tcp bytes 512 us 167.5
anchor collective all_reduce algo recursive_multiplying radix 0 block 512K ranks 8 nodes 1 cores 2 transport tcp bytes 4K us 140.8
anchor collective all_reduce algo recursive_multiplying radix 0 block 512K ranks 8 nodes 1 cores 2 transport tcp bytes 16K us 209.6
anchor collective all_reduce algo recursive_multiplying radix 0 block 512K ranks 8 nodes 1 cores 2 transport tcp bytes 64K us 465.5
anchor collective all_reduce algo recursive_multiplying radix 0 block 512K ranks 8 nodes 1 cores 2 transport tcp bytes 256K us 1837
anchor collective all_reduce algo recursive_multiplying radix 0 block 512K ranks 8 nodes 1 cores 2 transport tcp bytes 1M us 11350
anchor collective all_reduce algo recursive_multiplying radix 0 block 512K ranks 8 nodes 1 cores 2 transport tcp bytes 8M us 76110
anchor collective all_reduce algo recursive_multiplying radix 3 block 512K ranks 8 nodes 1 cores 2 transport tcp bytes 8 us 111.9
anchor collective all_reduce algo recursive_multiplying radix 3 block 512K ranks 8 nodes 1 cores 2 transport tcp bytes 512 us 105.3
anchor collective all_reduce algo recursive_multiplying radix 3 block 512K ranks 8 nodes 1 cores 2 transport tcp bytes 4K us 105.1
anchor collective all_reduce algo recursive_multiplying radix 3 block 512K ranks 8 nodes 1 cores 2 transport tcp bytes 16K us 145.9
anchor collective all_reduce algo recursive_multiplying radix 3 block 512K ranks 8 nodes 1 cores 2 transport tcp bytes 64K us 341.2
anchor collective all_reduce algo recursive_multiplying radix 3 block 512K ranks 8 nodes 1 cores 2 transport tcp bytes 256K us 1274
anchor collective all_reduce algo recursive_multiplying radix 3 block 512K ranks 8 nodes 1 cores 2 transport tcp bytes 1M us 7124
anchor collective all_reduce algo recursive_multiplying radix 3 block 512K ranks 8 nodes 1 cores 2 transport tcp bytes 8M us 61790
anchor collective all_reduce algo ring radix 0 block 256K ranks 8 nodes 1 cores 2 transport tcp bytes 8M us 29080
anchor collective all_reduce algo ring radix 0 block 512K ranks 8 nodes 1 cores 2 transport tcp bytes 8 us 169.1
anchor collective all_reduce algo ring radix 0 block 512K ranks 8 nodes 1 cores 2 transport tcp bytes 512 us 344.9
anchor collective all_reduce algo ring radix 0 block 512K ranks 8 nodes 1 cores 2 transport tcp bytes 4K us 396.2
anchor collective all_reduce algo ring radix 0 block 512K ranks 8 nodes 1 cores 2 transport tcp bytes 16K us 405.6
anchor collective all_reduce algo ring radix 0 block 512K ranks 8 nodes 1 cores 2 transport tcp bytes 64K us 503.9
anchor collective all_reduce algo ring radix 0 block 512K ranks 8 nodes 1 cores 2 transport tcp bytes 256K us 809.6
anchor collective all_reduce algo ring radix 0 block 512K ranks 8 nodes 1 cores 2 transport tcp bytes 1M us 2370
anchor collective all_reduce algo ring radix 0 block 512K ranks 8 nodes 1 cores 2 transport tcp bytes 8M us 28660
anchor collective all_reduce algo ring radix 0 block 1M ranks 8 nodes 1 cores 2 transport tcp bytes 8M us 26030
anchor collective all_reduce algo ring radix 0 block 2M ranks 8 nodes 1 cores 2 transport tcp bytes 8M us 26500
anchor collective all_reduce algo star radix 0 block 512K ranks 8 nodes 1 cores 2 transport tcp bytes 8 us 63.24
anchor collective all_reduce algo star radix 0 block 512K ranks 8 nodes 1 cores 2 transport tcp bytes 512 us 90.97
anchor collective all_reduce algo star radix 0 block 512K ranks 8 nodes 1 cores 2 transport tcp bytes 4K us 70.24
anchor collective all_reduce algo star radix 0 block 512K ranks 8 nodes 1 cores 2 transport tcp bytes 16K us 88.12
anchor collective all_reduce algo star radix 0 block 512K ranks 8 nodes 1 cores 2 transport tcp bytes 64K us 777.8
anchor collective all_reduce algo star radix 0 block 512K ranks 8 nodes 1 cores 2 transport tcp bytes 256K us 684
anchor collective all_reduce algo star radix 0 block 512K ranks 8 nodes 1 cores 2 transport tcp bytes 1M us 3203
anchor collective all_reduce algo star radix 0 block 512K ranks 8 nodes 1 cores 2 transport tcp bytes 8M us 27600
anchor collective broadcast algo binary_tree radix 0 block 512K ranks 8 nodes 1 cores 2 transport tcp bytes 8 us 14.64
anchor collective broadcast algo binary_tree radix 0 block 512K ranks 8 nodes 1 cores 2 transport tcp bytes 16K us 21.51
anchor collective broadcast algo binary_tree radix 0 block 512K ranks 8 nodes 1 cores 2 transport tcp bytes 1M us 1305
anchor collective broadcast algo chain radix 0 block 512K ranks 8 nodes 1 cores 2 transport tcp bytes 8 us 117.4
anchor collective broadcast algo chain radix 0 block 512K ranks 8 nodes 1 cores 2 transport tcp bytes 16K us 497.5
anchor collective broadcast algo chain radix 0 block 512K ranks 8 nodes 1 cores 2 transport tcp bytes 1M us 2930
anchor collective broadcast algo double_tree radix 0 block 512K ranks 8 nodes 1 cores 2 transport tcp bytes 8 us 73.66
anchor collective broadcast algo double_tree radix 0 block 512K ranks 8 nodes 1 cores 2 transport tcp bytes 16K us 89.19
anchor collective broadcast algo double_tree radix 0 block 512K ranks 8 nodes 1 cores 2 transport tcp bytes 1M us 1459
anchor collective broadcast algo knomial radix 0 block 512K ranks 8 nodes 1 cores 2 transport tcp bytes 8 us 17.44
anchor collective broadcast algo knomial radix 0 block 512K ranks 8 nodes 1 cores 2 transport tcp bytes 16K us 28.28
anchor collective broadcast algo knomial radix 0 block 512K ranks 8 nodes 1 cores 2 transport tcp bytes 1M us 1411
anchor collective broadcast algo scatter_allgather radix 0 block 512K ranks 8 nodes 1 cores 2 transport tcp bytes 8 us 52.74
anchor collective broadcast algo scatter_allgather radix 0 block 512K ranks 8 nodes 1 cores 2 transport tcp bytes 16K us 93.05
anchor collective broadcast algo scatter_allgather radix 0 block 512K ranks 8 nodes 1 cores 2 transport tcp bytes 1M us 1481
anchor collective broadcast algo star radix 0 block 512K ranks 8 nodes 1 cores 2 transport tcp bytes 8 us 42.83
anchor collective broadcast algo star radix 0 block 512K ranks 8 nodes 1 cores 2 transport tcp bytes 16K us 43.22
anchor collective broadcast algo star radix 0 block 512K ranks 8 nodes 1 cores 2 transport tcp bytes 1M us 1395
anchor collective reduce_scatter algo circulant radix 0 block 512K ranks 8 nodes 1 cores 2 transport tcp bytes 8 us 110.9
anchor collective reduce_scatter algo circulant radix 0 block 512K ranks 8 nodes 1 cores 2 transport tcp bytes 4K us 153.1
anchor collective reduce_scatter algo circulant radix 0 block 512K ranks 8 nodes 1 cores 2 transport tcp bytes 128K us 2154
anchor collective reduce_scatter algo direct radix 0 block 512K ranks 8 nodes 1 cores 2 transport tcp bytes 8 us 192.2
anchor collective reduce_scatter algo direct radix 0 block 512K ranks 8 nodes 1 cores 2 transport tcp bytes 4K us 229.4
anchor collective reduce_scatter algo direct radix 0 block 512K ranks 8 nodes 1 cores 2 transport tcp bytes 128K us 1945
anchor collective reduce_scatter algo ring radix 0 block 512K ranks 8 nodes 1 cores 2 transport tcp bytes 8 us 238.7
anchor collective reduce_scatter algo ring radix 0 block 512K ranks 8 nodes 1 cores 2 transport tcp bytes 4K us 254.7
anchor collective reduce_scatter algo ring radix 0 block 512K ranks 8 nodes 1 cores 2 transport tcp bytes 128K us 1748
anchor collective all_gather algo circulant radix 0 block 512K ranks 8 nodes 1 cores 2 transport tcp bytes 8 us 130.8
anchor collective all_gather algo circulant radix 0 block 512K ranks 8 nodes 1 cores 2 transport tcp bytes 4K us 184.1
anchor collective all_gather algo circulant radix 0 block 512K ranks 8 nodes 1 cores 2 transport tcp bytes 128K us 1677
anchor collective all_gather algo direct radix 0 block 512K ranks 8 nodes 1 cores 2 transport tcp bytes 8 us 219.6
anchor collective all_gather algo direct radix 0 block 512K ranks 8 nodes 1 cores 2 transport tcp bytes 4K us 257.6
anchor collective all_gather algo direct radix 0 block 512K ranks 8 nodes 1 cores 2 transport tcp bytes 128K us 1565
anchor collective all_gather algo ring radix 0 block 512K ranks 8 nodes 1 cores 2 transport tcp bytes 8 us 211.6
anchor collective all_gather algo ring radix 0 block 512K ranks 8 nodes 1 cores 2 transport tcp bytes 4K us 257.6
anchor collective all_gather algo ring radix 0 block 512K ranks 8 nodes 1 cores 2 transport tcp bytes 128K us 1306
anchor collective all_reduce algo binary_blocks radix 0 block 256K ranks 2 nodes 2 cores 2 transport tcp bytes 1M us 12200
anchor collective all_reduce algo binary_blocks radix 0 block 256K ranks 2 nodes 2 cores 2 transport tcp bytes 8M us 71000
anchor collective all_reduce algo binary_blocks radix 0 block 512K ranks 2 nodes 2 cores 2 transport tcp bytes 8 us 18.81
anchor collective all_reduce algo binary_blocks radix 0 block 512K ranks 2 nodes 2 cores 2 transport tcp bytes 512 us 19.49
anchor collective all_reduce algo binary_blocks radix 0 block 512K ranks 2 nodes 2 cores 2 transport tcp bytes 4K us 35.89
anchor collective all_reduce algo binary_blocks radix 0 block 512K ranks 2 nodes 2 cores 2 transport tcp bytes 16K us 105
anchor collective all_reduce algo binary_blocks radix 0 block 512K ranks 2 nodes 2 cores 2 transport tcp bytes 64K us 534.3
anchor collective all_reduce algo binary_blocks radix 0 block 512K ranks 2 nodes 2 cores 2 transport tcp bytes 256K us 2183
anchor collective all_reduce algo binary_blocks radix 0 block 512K ranks 2 nodes 2 cores 2 transport tcp bytes 1M us 8743
anchor collective all_reduce algo binary_blocks radix 0 block 512K ranks 2 nodes 2 cores 2 transport tcp bytes 8M us 71580
anchor collective all_reduce algo binary_blocks radix 0 block 1M ranks 2 nodes 2 cores 2 transport tcp bytes 8M us 72690
anchor collective all_reduce algo binary_blocks radix 0 block 2M ranks 2 nodes 2 cores 2 transport tcp bytes 8M us 71840
anchor collective all_reduce algo binary_blocks_whole radix 0 block 512K ranks 2 nodes 2 cores 2 transport tcp bytes 8 us 10.59
anchor collective all_reduce algo binary_blocks_whole radix 0 block 512K ranks 2 nodes 2 cores 2 transport tcp bytes 512 us 9.6
anchor collective all_reduce algo binary_blocks_whole radix 0 block 512K ranks 2 nodes 2 cores 2 transport tcp bytes 4K us 28.84
anchor collective all_reduce algo binary_blocks_whole radix 0 block 512K ranks 2 nodes 2 cores 2 transport tcp bytes 16K us 131.9
anchor collective all_reduce algo binary_blocks_whole radix 0 block 512K ranks 2 nodes 2 cores 2 transport tcp bytes 64K us 487.2
anchor collective all_reduce algo binary_blocks_whole radix 0 block 512K ranks 2 nodes 2 cores 2 transport tcp bytes 256K us 3968
anchor collective all_reduce algo binary_blocks_whole radix 0 block 512K ranks 2 nodes 2 cores 2 transport tcp bytes 1M us 9111
anchor collective all_reduce algo binary_blocks_whole radix 0 block 512K ranks 2 nodes 2 cores 2 transport tcp bytes 8M us 81560
anchor collective all_reduce algo binary_tree radix 0 block 512K ranks 2 nodes 2 cores 2 transport tcp bytes 8 us 15.92
anchor collective all_reduce algo binary_tree radix 0 block 512K ranks 2 nodes 2 cores 2 transport tcp bytes 512 us 15.98
anchor collective all_reduce algo binary_tree radix 0 block 512K ranks 2 nodes 2 cores 2 transport tcp bytes 4K us 29.56
anchor collective all_reduce algo binary_tree radix 0 block 512K ranks 2 nodes 2 cores 2 transport tcp bytes 16K us 131.9
anchor collective all_reduce algo binary_tree radix 0 block 512K ranks 2 nodes 2 cores 2 transport tcp bytes 64K us 796.5
anchor collective all_reduce algo binary_tree radix 0 block 512K ranks 2 nodes 2 cores 2 transport tcp bytes 256K us 4153
anchor collective all_reduce algo binary_tree radix 0 block 512K ranks 2 nodes 2 cores 2 transport tcp bytes 1M us 14630
anchor collective all_reduce algo binary_tree radix 0 block 512K ranks 2 nodes 2 cores 2 transport tcp bytes 8M us 81240
anchor collective all_reduce algo circulant radix 0 block 512K ranks 2 nodes 2 cores 2 transport tcp bytes 8 us 16.99
anchor collective all_reduce algo circulant radix 0 block 512K ranks 2 nodes 2 cores 2 transport tcp bytes 512 us 20.17
anchor collective all_reduce algo circulant radix 0 block 512K ranks 2 nodes 2 cores 2 transport tcp bytes 4K us 32.13
anchor collective all_reduce algo circulant radix 0 block 512K ranks 2 nodes 2 cores 2 transport tcp bytes 16K us 135.6
anchor collective all_reduce algo circulant radix 0 block 512K ranks 2 nodes 2 cores 2 transport tcp bytes 64K us 569.2
anchor collective all_reduce algo circulant radix 0 block 512K ranks 2 nodes 2 cores 2 transport tcp bytes 256K us 2184
anchor collective all_reduce algo circulant radix 0 block 512K ranks 2 nodes 2 cores 2 transport tcp bytes 1M us 8780
anchor collective all_reduce algo circulant radix 0 block 512K ranks 2 nodes 2 cores 2 transport tcp bytes 8M us 70520
anchor collective all_reduce algo direct radix 0 block 512K ranks 2 nodes 2 cores 2 transport tcp bytes 8 us 19.36
anchor collective all_reduce algo direct radix 0 block 512K ranks 2 nodes 2 cores 2 transport tcp bytes 512 us 20.8
anchor collective all_reduce algo direct radix 0 block 512K ranks 2 nodes 2 cores 2 transport tcp bytes 4K us 34.65
anchor collective all_reduce algo direct radix 0 block 512K ranks 2 nodes 2 cores 2 transport tcp bytes 16K us 105.8
anchor collective all_reduce algo direct radix 0 block 512K ranks 2 nodes 2 cores 2 transport tcp bytes 64K us 539.2
anchor collective all_reduce algo direct radix 0 block 512K ranks 2 nodes 2 cores 2 transport tcp bytes 256K us 2154
anchor collective all_reduce algo direct radix 0 block 512K ranks 2 nodes 2 cores 2 transport tcp bytes 1M us 8728
anchor collective all_reduce algo direct radix 0 block 512K ranks 2 nodes 2 cores 2 transport tcp bytes 8M us 85430
anchor collective all_reduce algo double_tree radix 0 block 512K ranks 2 nodes 2 cores 2 transport tcp bytes 8 us 24.65
anchor collective all_reduce algo double_tree radix 0 block 512K ranks 2 nodes 2 cores 2 transport tcp bytes 512 us 24.85
anchor collective all_reduce algo double_tree radix 0 block 512K ranks 2 nodes 2 cores 2 transport tcp bytes 4K us 37.76
anchor collective all_reduce algo double_tree radix 0 block 512K ranks 2 nodes 2 cores 2 transport tcp bytes 16K us 107.7
anchor collective all_reduce algo double_tree radix 0 block 512K ranks 2 nodes 2 cores 2 transport tcp bytes 64K us 800.4
anchor collective all_reduce algo double_tree radix 0 block 512K ranks 2 nodes 2 cores 2 transport tcp bytes 256K us 3097
anchor collective all_reduce algo double_tree radix 0 block 512K ranks 2 nodes 2 cores 2 transport tcp bytes 1M us 12950
anchor collective all_reduce algo double_tree radix 0 block 512K ranks 2 nodes 2 cores 2 transport tcp bytes 8M us 85050
anchor collective all_reduce algo halving_doubling radix 0 block 256K ranks 2 nodes 2 cores 2 transport tcp bytes 1M us 8797
anchor collective all_reduce algo halving_doubling radix 0 block 256K ranks 2 nodes 2 cores 2 transport tcp bytes 8M us 70880
anchor collective all_reduce algo halving_doubling radix 0 block 512K ranks 2 nodes 2 cores 2 transport tcp bytes 8 us 17.38
anchor collective all_reduce algo halving_doubling radix 0 block 512K ranks 2 nodes 2 cores 2 transport tcp bytes 512 us 17.02
anchor collective all_reduce algo halving_doubling radix 0 block 512K ranks 2 nodes 2 cores 2 transport tcp bytes 4K us 35.22
anchor collective all_reduce algo halving_doubling radix 0 block 512K ranks 2 nodes 2 cores 2 transport tcp bytes 16K us 134
anchor collective all_reduce algo halving_doubling radix 0 block 512K ranks 2 nodes 2 cores 2 transport tcp bytes 64K us 388.4
anchor collective all_reduce algo halving_doubling radix 0 block 512K ranks 2 nodes 2 cores 2 transport tcp bytes 256K us 2192
anchor collective all_reduce algo halving_doubling radix 0 block 512K ranks 2 nodes 2 cores 2 transport tcp bytes 1M us 8816
anchor collective all_reduce algo halving_doubling radix 0 block 512K ranks 2 nodes 2 cores 2 transport tcp bytes 8M us 70420
anchor collective all_reduce algo halving_doubling radix 0 block 1M ranks 2 nodes 2 cores 2 transport tcp bytes 8M us 71130
anchor collective all_reduce algo halving_doubling radix 0 block 2M ranks 2 nodes 2 cores 2 transport tcp bytes 8M us 80120
anchor collective all_reduce algo hierarchical radix 0 block 256K ranks 2 nodes 2 cores 2 transport tcp bytes 1M us 8783
anchor collective all_reduce algo hierarchical radix 0 block 256K ranks 2 nodes 2 cores 2 transport tcp bytes 8M us 70490
anchor collective all_reduce algo hierarchical radix 0 block 512K ranks 2 nodes 2 cores 2 transport tcp bytes 8 us 17.76
anchor collective all_reduce algo hierarchical radix 0 block 512K ranks 2 nodes 2 cores 2 transport tcp bytes 512 us 19.57
anchor collective all_reduce algo hierarchical radix 0 block 512K ranks 2 nodes 2 cores 2 transport tcp bytes 4K us 35.84
anchor collective all_reduce algo hierarchical radix 0 block 512K ranks 2 nodes 2 cores 2 transport tcp bytes 16K us 106.1
anchor collective all_reduce algo hierarchical radix 0 block 512K ranks 2 nodes 2 cores 2 transport tcp bytes 64K us 392.8
anchor collective all_reduce algo hierarchical radix 0 block 512K ranks 2 nodes 2 cores 2 transport tcp bytes 256K us 2191
anchor collective all_reduce algo hierarchical radix 0 block 512K ranks 2 nodes 2 cores 2 transport tcp bytes 1M us 8800
anchor collective all_reduce algo hierarchical radix 0 block 512K ranks 2 nodes 2 cores 2 transport tcp bytes 8M us 70470
anchor collective all_reduce algo hierarchical radix 0 block 1M ranks 2 nodes 2 cores 2 transport tcp bytes 8M us 72720
anchor collective all_reduce algo hierarchical radix 0 block 2M ranks 2 nodes 2 cores 2 transport tcp bytes 8M us 86710
anchor collective all_reduce algo hierarchical_shards radix 0 block 512K ranks 2 nodes 2 cores 2 transport tcp bytes 8 us 18.97
anchor collective all_reduce algo hierarchical_shards radix 0 block 512K ranks 2 nodes 2 cores 2 transport tcp bytes 512 us 17.89
anchor collective all_reduce algo hierarchical_shards radix 0 block 512K ranks 2 nodes 2 cores 2 transport tcp bytes 4K us 36.04
anchor collective all_reduce algo hierarchical_shards radix 0 block 512K ranks 2 nodes 2 cores 2 transport tcp bytes 16K us 104.9
anchor collective all_reduce algo hierarchical_shards radix 0 block 512K ranks 2 nodes 2 cores 2 transport tcp bytes 64K us 504.2
anchor collective all_reduce algo hierarchical_shards radix 0 block 512K ranks 2 nodes 2 cores 2 transport tcp bytes 256K us 2087
anchor collective all_reduce algo hierarchical_shards radix 0 block 512K ranks 2 nodes 2 cores 2 transport tcp bytes 1M us 8928
anchor collective all_reduce algo hierarchical_shards radix 0 block 512K ranks 2 nodes 2 cores 2 transport tcp bytes 8M us 85280
anchor collective all_reduce algo knomial radix 0 block 512K ranks 2 nodes 2 cores 2 transport tcp bytes 8 us 16.39
anchor collective all_reduce algo knomial radix 0 block 512K ranks 2 nodes 2 cores 2 transport tcp bytes 512 us 14.23
anchor collective all_reduce algo knomial radix 0 block 512K ranks 2 nodes 2 cores 2 transport tcp bytes 4K us 33.58
anchor collective all_reduce algo knomial radix 0 block 512K ranks 2 nodes 2 cores 2 transport tcp bytes 16K us 126.1
anchor collective all_reduce algo knomial radix 0 block 512K ranks 2 nodes 2 cores 2 transport tcp bytes 64K us 743.8
anchor collective all_reduce algo knomial radix 0 block 512K ranks 2 nodes 2 cores 2 transport tcp bytes 256K us 4109
anchor collective all_reduce algo knomial radix 0 block 512K ranks 2 nodes 2 cores 2 transport tcp bytes 1M us 14260
anchor collective all_reduce algo knomial radix 0 block 512K ranks 2 nodes 2 cores 2 transport tcp bytes 8M us 94810
anchor collective all_reduce algo one_shot radix 0 block 256K ranks 2 nodes 2 cores 2 transport tcp bytes 1M us 8968
anchor collective all_reduce algo one_shot radix 0 block 256K ranks 2 nodes 2 cores 2 transport tcp bytes 8M us 70500
anchor collective all_reduce algo one_shot radix 0 block 512K ranks 2 nodes 2 cores 2 transport tcp bytes 8 us 9.351
anchor collective all_reduce algo one_shot radix 0 block 512K ranks 2 nodes 2 cores 2 transport tcp bytes 512 us 9.281
anchor collective all_reduce algo one_shot radix 0 block 512K ranks 2 nodes 2 cores 2 transport tcp bytes 4K us 31.91
anchor collective all_reduce algo one_shot radix 0 block 512K ranks 2 nodes 2 cores 2 transport tcp bytes 16K us 134.2
anchor collective all_reduce algo one_shot radix 0 block 512K ranks 2 nodes 2 cores 2 transport tcp bytes 64K us 528.2
anchor collective all_reduce algo one_shot radix 0 block 512K ranks 2 nodes 2 cores 2 transport tcp bytes 256K us 2253
anchor collective all_reduce algo one_shot radix 0 block 512K ranks 2 nodes 2 cores 2 transport tcp bytes 1M us 8813
anchor collective all_reduce algo one_shot radix 0 block 512K ranks 2 nodes 2 cores 2 transport tcp bytes 8M us 71030
anchor collective all_reduce algo one_shot radix 0 block 1M ranks 2 nodes 2 cores 2 transport tcp bytes 1M us 17080
anchor collective all_reduce algo one_shot radix 0 block 1M ranks 2 nodes 2 cores 2 transport tcp bytes 8M us 72270
anchor collective all_reduce algo one_shot radix 0 block 2M ranks 2 nodes 2 cores 2 transport tcp bytes 1M us 8850
anchor collective all_reduce algo one_shot radix 0 block 2M ranks 2 nodes 2 cores 2 transport tcp bytes 8M us 70810
anchor collective all_reduce algo recursive_doubling radix 0 block 256K ranks 2 nodes 2 cores 2 transport tcp bytes 1M us 8851
anchor collective all_reduce algo recursive_doubling radix 0 block 256K ranks 2 nodes 2 cores 2 transport tcp bytes 8M us 70510
anchor collective all_reduce algo recursive_doubling radix 0 block 512K ranks 2 nodes 2 cores 2 transport tcp bytes 8 us 9.134
anchor collective all_reduce algo recursive_doubling radix 0 block 512K ranks 2 nodes 2 cores 2 transport tcp bytes 512 us 11.45
anchor collective all_reduce algo recursive_doubling radix 0 block 512K ranks 2 nodes 2 cores 2 transport tcp bytes 4K us 34.11
anchor collective all_reduce algo recursive_doubling radix 0 block 512K ranks 2 nodes 2 cores 2 transport tcp bytes 16K us 107.1
anchor collective all_reduce algo recursive_doubling radix 0 block 512K ranks 2 nodes 2 cores 2 transport tcp bytes 64K us 413.8
anchor collective all_reduce algo recursive_doubling radix 0 block 512K ranks 2 nodes 2 cores 2 transport tcp bytes 256K us 2166
anchor collective all_reduce algo recursive_doubling radix 0 block 512K ranks 2 nodes 2 cores 2 transport tcp bytes 1M us 8823
anchor collective all_reduce algo recursive_doubling radix 0 block 512K ranks 2 nodes 2 cores 2 transport tcp bytes 8M us 70470
anchor collective all_reduce algo recursive_doubling radix 0 block 1M ranks 2 nodes 2 cores 2 transport tcp bytes 1M us 9004
anchor collective all_reduce algo recursive_doubling radix 0 block 1M ranks 2 nodes 2 cores 2 transport tcp bytes 8M us 70830
anchor collective all_reduce algo recursive_doubling radix 0 block 2M ranks 2 nodes 2 cores 2 transport tcp bytes 1M us 8989
anchor collective all_reduce algo recursive_doubling radix 0 block 2M ranks 2 nodes 2 cores 2 transport tcp bytes 8M us 71210
anchor collective all_reduce algo recursive_multiplying radix 0 block 512K ranks 2 nodes 2 cores 2 transport tcp bytes 8 us 9.509
anchor collective all_reduce algo recursive_multiplying radix 0 block 512K ranks 2 nodes 2 cores 2 transport tcp bytes 512 us 11.09
anchor collective all_reduce algo recursive_multiplying radix 0 block 512K ranks 2 nodes 2 cores 2 transport tcp bytes 4K us 35.04
anchor collective all_reduce algo recursive_multiplying radix 0 block 512K ranks 2 nodes 2 cores 2 transport tcp bytes 16K us 104.2
anchor collective all_reduce algo recursive_multiplying radix 0 block 512K ranks 2 nodes 2 cores 2 transport tcp bytes 64K us 540.8
anchor collective all_reduce algo recursive_multiplying radix 0 block 512K ranks 2 nodes 2 cores 2 transport tcp bytes 256K us 2190
anchor collective all_reduce algo recursive_multiplying radix 0 block 512K ranks 2 nodes 2 cores 2 transport tcp bytes 1M us 8947
anchor collective all_reduce algo recursive_multiplying radix 0 block 512K ranks 2 nodes 2 cores 2 transport tcp bytes 8M us 70940
anchor collective all_reduce algo ring radix 0 block 512K ranks 2 nodes 2 cores 2 transport tcp bytes 8 us 19.13
anchor collective all_reduce algo ring radix 0 block 512K ranks 2 nodes 2 cores 2 transport tcp bytes 512 us 17.4
anchor collective all_reduce algo ring radix 0 block 512K ranks 2 nodes 2 cores 2 transport tcp bytes 4K us 31.54
anchor collective all_reduce algo ring radix 0 block 512K ranks 2 nodes 2 cores 2 transport tcp bytes 16K us 136.4
anchor collective all_reduce algo ring radix 0 block 512K ranks 2 nodes 2 cores 2 transport tcp bytes 64K us 533
anchor collective all_reduce algo ring radix 0 block 512K ranks 2 nodes 2 cores 2 transport tcp bytes 256K us 2094
anchor collective all_reduce algo ring radix 0 block 512K ranks 2 nodes 2 cores 2 transport tcp bytes 1M us 8794
anchor collective all_reduce algo ring radix 0 block 512K ranks 2 nodes 2 cores 2 transport tcp bytes 8M us 72550
anchor collective all_reduce algo star radix 0 block 512K ranks 2 nodes 2 cores 2 transport tcp bytes 8 us 15.53
anchor collective all_reduce algo star radix 0 block 512K ranks 2 nodes 2 cores 2 transport tcp bytes 512 us 15.88
anchor collective all_reduce algo star radix 0 block 512K ranks 2 nodes 2 cores 2 transport tcp bytes 4K us 33.73
anchor collective all_reduce algo star radix 0 block 512K ranks 2 nodes 2 cores 2 transport tcp bytes 16K us 124.3
anchor collective all_reduce algo star radix 0 block 512K ranks 2 nodes 2 cores 2 transport tcp bytes 64K us 774
anchor collective all_reduce algo star radix 0 block 512K ranks 2 nodes 2 cores 2 transport tcp bytes 256K us 4131
anchor collective all_reduce algo star radix 0 block 512K ranks 2 nodes 2 cores 2 transport tcp bytes 1M us 16300
anchor collective all_reduce algo star radix 0 block 512K ranks 2 nodes 2 cores 2 transport tcp bytes 8M us 85060
anchor collective broadcast algo binary_tree radix 0 block 512K ranks 2 nodes 2 cores 2 transport tcp bytes 8 us 9.781
anchor collective broadcast algo binary_tree radix 0 block 512K ranks 2 nodes 2 cores 2 transport tcp bytes 16K us 132.2
anchor collective broadcast algo binary_tree radix 0 block 512K ranks 2 nodes 2 cores 2 transport tcp bytes 1M us 8649
anchor collective broadcast algo chain radix 0 block 512K ranks 2 nodes 2 cores 2 transport tcp bytes 8 us 9.221
anchor collective broadcast algo chain radix 0 block 512K ranks 2 nodes 2 cores 2 transport tcp bytes 16K us 132.2
anchor collective broadcast algo chain radix 0 block 512K ranks 2 nodes 2 cores 2 transport tcp bytes 1M us 8653
anchor collective broadcast algo double_tree radix 0 block 512K ranks 2 nodes 2 cores 2 transport tcp bytes 8 us 13.9
anchor collective broadcast algo double_tree radix 0 block 512K ranks 2 nodes 2 cores 2 transport tcp bytes 16K us 132.9
anchor collective broadcast algo double_tree radix 0 block 512K ranks 2 nodes 2 cores 2 transport tcp bytes 1M us 8742
anchor collective broadcast algo knomial radix 0 block 512K ranks 2 nodes 2 cores 2 transport tcp bytes 8 us 9.983
anchor collective broadcast algo knomial radix 0 block 512K ranks 2 nodes 2 cores 2 transport tcp bytes 16K us 132.5
anchor collective broadcast algo knomial radix 0 block 512K ranks 2 nodes 2 cores 2 transport tcp bytes 1M us 8693
anchor collective broadcast algo scatter_allgather radix 0 block 512K ranks 2 nodes 2 cores 2 transport tcp bytes 8 us 13.9
anchor collective broadcast algo scatter_allgather radix 0 block 512K ranks 2 nodes 2 cores 2 transport tcp bytes 16K us 132.1
anchor collective broadcast algo scatter_allgather radix 0 block 512K ranks 2 nodes 2 cores 2 transport tcp bytes 1M us 8686
anchor collective broadcast algo star radix 0 block 512K ranks 2 nodes 2 cores 2 transport tcp bytes 8 us 8.982
anchor collective broadcast algo star radix 0 block 512K ranks 2 nodes 2 cores 2 transport tcp bytes 16K us 130.8
anchor collective broadcast algo star radix 0 block 512K ranks 2 nodes 2 cores 2 transport tcp bytes 1M us 8755
anchor collective reduce_scatter algo circulant radix 0 block 512K ranks 2 nodes 2 cores 2 transport tcp bytes 8 us 9.352
anchor collective reduce_scatter algo circulant radix 0 block 512K ranks 2 nodes 2 cores 2 transport tcp bytes 4K us 35.3
anchor collective reduce_scatter algo circulant radix 0 block 512K ranks 2 nodes 2 cores 2 transport tcp bytes 128K us 1094
anchor collective reduce_scatter algo direct radix 0 block 512K ranks 2 nodes 2 cores 2 transport tcp bytes 8 us 9.368
anchor collective reduce_scatter algo direct radix 0 block 512K ranks 2 nodes 2 cores 2 transport tcp bytes 4K us 35.37
anchor collective reduce_scatter algo direct radix 0 block 512K ranks 2 nodes 2 cores 2 transport tcp bytes 128K us 1100
anchor collective reduce_scatter algo ring radix 0 block 512K ranks 2 nodes 2 cores 2 transport tcp bytes 8 us 9.285
anchor collective reduce_scatter algo ring radix 0 block 512K ranks 2 nodes 2 cores 2 transport tcp bytes 4K us 35.36
anchor collective reduce_scatter algo ring radix 0 block 512K ranks 2 nodes 2 cores 2 transport tcp bytes 128K us 1095
anchor collective all_gather algo circulant radix 0 block 512K ranks 2 nodes 2 cores 2 transport tcp bytes 8 us 10.09
anchor collective all_gather algo circulant radix 0 block 512K ranks 2 nodes 2 cores 2 transport tcp bytes 4K us 35.36
anchor collective all_gather algo circulant radix 0 block 512K ranks 2 nodes 2 cores 2 transport tcp bytes 128K us 1095
anchor collective all_gather algo direct radix 0 block 512K ranks 2 nodes 2 cores 2 transport tcp bytes 8 us 10.55
anchor collective all_gather algo direct radix 0 block 512K ranks 2 nodes 2 cores 2 transport tcp bytes 4K us 35.36
anchor collective all_gather algo direct radix 0 block 512K ranks 2 nodes 2 cores 2 transport tcp bytes 128K us 1100
anchor collective all_gather algo ring radix 0 block 512K ranks 2 nodes 2 cores 2 transport tcp bytes 8 us 9.33
anchor collective all_gather algo ring radix 0 block 512K ranks 2 nodes 2 cores 2 transport tcp bytes 4K us 35.29
anchor collective all_gather algo ring radix 0 block 512K ranks 2 nodes 2 cores 2 transport tcp bytes 128K us 1094
anchor collective all_reduce algo binary_blocks radix 0 block 512K ranks 4 nodes 4 cores 2 transport tcp bytes 8 us 66.62
anchor collective all_reduce algo binary_blocks radix 0 block 512K ranks 4 nodes 4 cores 2 transport tcp bytes 512 us 79.84
anchor collective all_reduce algo binary_blocks radix 0 block 512K ranks 4 nodes 4 cores 2 transport tcp bytes 4K us 105
anchor collective all_reduce algo binary_blocks radix 0 block 512K ranks 4 nodes 4 cores 2 transport tcp bytes 16K us 163.9
anchor collective all_reduce algo binary_blocks radix 0 block 512K ranks 4 nodes 4 cores 2 transport tcp bytes 64K us 783.4
anchor collective all_reduce algo binary_blocks radix 0 block 512K ranks 4 nodes 4 cores 2 transport tcp bytes 256K us 3321
anchor collective all_reduce algo binary_blocks radix 0 block 512K ranks 4 nodes 4 cores 2 transport tcp bytes 1M us 13800
anchor collective all_reduce algo binary_blocks radix 0 block 512K ranks 4 nodes 4 cores 2 transport tcp bytes 8M us 120100
anchor collective all_reduce algo binary_blocks_whole radix 0 block 512K ranks 4 nodes 4 cores 2 transport tcp bytes 8 us 45.7
anchor collective all_reduce algo binary_blocks_whole radix 0 block 512K ranks 4 nodes 4 cores 2 transport tcp bytes 512 us 38.81
anchor collective all_reduce algo binary_blocks_whole radix 0 block 512K ranks 4 nodes 4 cores 2 transport tcp bytes 4K us 74.53
anchor collective all_reduce algo binary_blocks_whole radix 0 block 512K ranks 4 nodes 4 cores 2 transport tcp bytes 16K us 240.8
anchor collective all_reduce algo binary_blocks_whole radix 0 block 512K ranks 4 nodes 4 cores 2 transport tcp bytes 64K us 1089
anchor collective all_reduce algo binary_blocks_whole radix 0 block 512K ranks 4 nodes 4 cores 2 transport tcp bytes 256K us 4518
anchor collective all_reduce algo binary_blocks_whole radix 0 block 512K ranks 4 nodes 4 cores 2 transport tcp bytes 1M us 18940
anchor collective all_reduce algo binary_blocks_whole radix 0 block 512K ranks 4 nodes 4 cores 2 transport tcp bytes 8M us 160600
anchor collective all_reduce algo binary_tree radix 0 block 512K ranks 4 nodes 4 cores 2 transport tcp bytes 8 us 59.85
anchor collective all_reduce algo binary_tree radix 0 block 512K ranks 4 nodes 4 cores 2 transport tcp bytes 512 us 57.88
anchor collective all_reduce algo binary_tree radix 0 block 512K ranks 4 nodes 4 cores 2 transport tcp bytes 4K us 74.97
anchor collective all_reduce algo binary_tree radix 0 block 512K ranks 4 nodes 4 cores 2 transport tcp bytes 16K us 244.8
anchor collective all_reduce algo binary_tree radix 0 block 512K ranks 4 nodes 4 cores 2 transport tcp bytes 64K us 1875
anchor collective all_reduce algo binary_tree radix 0 block 512K ranks 4 nodes 4 cores 2 transport tcp bytes 256K us 9520
anchor collective all_reduce algo binary_tree radix 0 block 512K ranks 4 nodes 4 cores 2 transport tcp bytes 1M us 34300
anchor collective all_reduce algo binary_tree radix 0 block 512K ranks 4 nodes 4 cores 2 transport tcp bytes 8M us 201100
anchor collective all_reduce algo circulant radix 0 block 512K ranks 4 nodes 4 cores 2 transport tcp bytes 8 us 53.6
anchor collective all_reduce algo circulant radix 0 block 512K ranks 4 nodes 4 cores 2 transport tcp bytes 512 us 100.2
anchor collective all_reduce algo circulant radix 0 block 512K ranks 4 nodes 4 cores 2 transport tcp bytes 4K us 146.9
anchor collective all_reduce algo circulant radix 0 block 512K ranks 4 nodes 4 cores 2 transport tcp bytes 16K us 162.7
anchor collective all_reduce algo circulant radix 0 block 512K ranks 4 nodes 4 cores 2 transport tcp bytes 64K us 2233
anchor collective all_reduce algo circulant radix 0 block 512K ranks 4 nodes 4 cores 2 transport tcp bytes 256K us 4812
anchor collective all_reduce algo circulant radix 0 block 512K ranks 4 nodes 4 cores 2 transport tcp bytes 1M us 19520
anchor collective all_reduce algo circulant radix 0 block 512K ranks 4 nodes 4 cores 2 transport tcp bytes 8M us 136400
anchor collective all_reduce algo direct radix 0 block 512K ranks 4 nodes 4 cores 2 transport tcp bytes 8 us 65.53
anchor collective all_reduce algo direct radix 0 block 512K ranks 4 nodes 4 cores 2 transport tcp bytes 512 us 133.9
anchor collective all_reduce algo direct radix 0 block 512K ranks 4 nodes 4 cores 2 transport tcp bytes 4K us 138.7
anchor collective all_reduce algo direct radix 0 block 512K ranks 4 nodes 4 cores 2 transport tcp bytes 16K us 179.5
anchor collective all_reduce algo direct radix 0 block 512K ranks 4 nodes 4 cores 2 transport tcp bytes 64K us 1173
anchor collective all_reduce algo direct radix 0 block 512K ranks 4 nodes 4 cores 2 transport tcp bytes 256K us 3523
anchor collective all_reduce algo direct radix 0 block 512K ranks 4 nodes 4 cores 2 transport tcp bytes 1M us 15250
anchor collective all_reduce algo direct radix 0 block 512K ranks 4 nodes 4 cores 2 transport tcp bytes 8M us 117400
anchor collective all_reduce algo double_tree radix 0 block 512K ranks 4 nodes 4 cores 2 transport tcp bytes 8 us 101.3
anchor collective all_reduce algo double_tree radix 0 block 512K ranks 4 nodes 4 cores 2 transport tcp bytes 512 us 176.1
anchor collective all_reduce algo double_tree radix 0 block 512K ranks 4 nodes 4 cores 2 transport tcp bytes 4K us 160.5
anchor collective all_reduce algo double_tree radix 0 block 512K ranks 4 nodes 4 cores 2 transport tcp bytes 16K us 212.8
anchor collective all_reduce algo double_tree radix 0 block 512K ranks 4 nodes 4 cores 2 transport tcp bytes 64K us 1102
anchor collective all_reduce algo double_tree radix 0 block 512K ranks 4 nodes 4 cores 2 transport tcp bytes 256K us 5220
anchor collective all_reduce algo double_tree radix 0 block 512K ranks 4 nodes 4 cores 2 transport tcp bytes 1M us 23300
anchor collective all_reduce algo double_tree radix 0 block 512K ranks 4 nodes 4 cores 2 transport tcp bytes 8M us 167600
anchor collective all_reduce algo halving_doubling radix 0 block 256K ranks 4 nodes 4 cores 2 transport tcp bytes 8M us 121000
anchor collective all_reduce algo halving_doubling radix 0 block 512K ranks 4 nodes 4 cores 2 transport tcp bytes 8 us 63.52
anchor collective all_reduce algo halving_doubling radix 0 block 512K ranks 4 nodes 4 cores 2 transport tcp bytes 512 us 92.77
anchor collective all_reduce algo halving_doubling radix 0 block 512K ranks 4 nodes 4 cores 2 transport tcp bytes 4K us 121.5
anchor collective all_reduce algo halving_doubling radix 0 block 512K ranks 4 nodes 4 cores 2 transport tcp bytes 16K us 174.5
anchor collective all_reduce algo halving_doubling radix 0 block 512K ranks 4 nodes 4 cores 2 transport tcp bytes 64K us 796.9
anchor collective all_reduce algo halving_doubling radix 0 block 512K ranks 4 nodes 4 cores 2 transport tcp bytes 256K us 3298
anchor collective all_reduce algo halving_doubling radix 0 block 512K ranks 4 nodes 4 cores 2 transport tcp bytes 1M us 14300
anchor collective all_reduce algo halving_doubling radix 0 block 512K ranks 4 nodes 4 cores 2 transport tcp bytes 8M us 125500
anchor collective all_reduce algo halving_doubling radix 0 block 1M ranks 4 nodes 4 cores 2 transport tcp bytes 8M us 127400
anchor collective all_reduce algo halving_doubling radix 0 block 2M ranks 4 nodes 4 cores 2 transport tcp bytes 8M us 125400
anchor collective all_reduce algo hierarchical radix 0 block 512K ranks 4 nodes 4 cores 2 transport tcp bytes 8 us 65.53
anchor collective all_reduce algo hierarchical radix 0 block 512K ranks 4 nodes 4 cores 2 transport tcp bytes 512 us 71.29
anchor collective all_reduce algo hierarchical radix 0 block 512K ranks 4 nodes 4 cores 2 transport tcp bytes 4K us 99.2
anchor collective all_reduce algo hierarchical radix 0 block 512K ranks 4 nodes 4 cores 2 transport tcp bytes 16K us 262.9
anchor collective all_reduce algo hierarchical radix 0 block 512K ranks 4 nodes 4 cores 2 transport tcp bytes 64K us 1517
anchor collective all_reduce algo hierarchical radix 0 block 512K ranks 4 nodes 4 cores 2 transport tcp bytes 256K us 6701
anchor collective all_reduce algo hierarchical radix 0 block 512K ranks 4 nodes 4 cores 2 transport tcp bytes 1M us 27520
anchor collective all_reduce algo hierarchical radix 0 block 512K ranks 4 nodes 4 cores 2 transport tcp bytes 8M us 214000
anchor collective all_reduce algo hierarchical_shards radix 0 block 256K ranks 4 nodes 4 cores 2 transport tcp bytes 8M us 116600
anchor collective all_reduce algo hierarchical_shards radix 0 block 512K ranks 4 nodes 4 cores 2 transport tcp bytes 8 us 84.83
anchor collective all_reduce algo hierarchical_shards radix 0 block 512K ranks 4 nodes 4 cores 2 transport tcp bytes 512 us 90.8
anchor collective all_reduce algo hierarchical_shards radix 0 block 512K ranks 4 nodes 4 cores 2 transport tcp bytes 4K us 146.3
anchor collective all_reduce algo hierarchical_shards radix 0 block 512K ranks 4 nodes 4 cores 2 transport tcp bytes 16K us 148.6
anchor collective all_reduce algo hierarchical_shards radix 0 block 512K ranks 4 nodes 4 cores 2 transport tcp bytes 64K us 774.8
anchor collective all_reduce algo hierarchical_shards radix 0 block 512K ranks 4 nodes 4 cores 2 transport tcp bytes 256K us 3302
anchor collective all_reduce algo hierarchical_shards radix 0 block 512K ranks 4 nodes 4 cores 2 transport tcp bytes 1M us 13690
anchor collective all_reduce algo hierarchical_shards radix 0 block 512K ranks 4 nodes 4 cores 2 transport tcp bytes 8M us 112600
anchor collective all_reduce algo hierarchical_shards radix 0 block 1M ranks 4 nodes 4 cores 2 transport tcp bytes 8M us 124800
anchor collective all_reduce algo hierarchical_shards radix 0 block 2M ranks 4 nodes 4 cores 2 transport tcp bytes 8M us 122500
anchor collective all_reduce algo knomial radix 0 block 512K ranks 4 nodes 4 cores 2 transport tcp bytes 8 us 53.45
anchor collective all_reduce algo knomial radix 0 block 512K ranks 4 nodes 4 cores 2 transport tcp bytes 512 us 46.33
anchor collective all_reduce algo knomial radix 0 block 512K ranks 4 nodes 4 cores 2 transport tcp bytes 4K us 64.58
anchor collective all_reduce algo knomial radix 0 block 512K ranks 4 nodes 4 cores 2 transport tcp bytes 16K us 467.5
anchor collective all_reduce algo knomial radix 0 block 512K ranks 4 nodes 4 cores 2 transport tcp bytes 64K us 2478
anchor collective all_reduce algo knomial radix 0 block 512K ranks 4 nodes 4 cores 2 transport tcp bytes 256K us 12960
anchor collective all_reduce algo knomial radix 0 block 512K ranks 4 nodes 4 cores 2 transport tcp bytes 1M us 48640
anchor collective all_reduce algo knomial radix 0 block 512K ranks 4 nodes 4 cores 2 transport tcp bytes 8M us 299700
anchor collective all_reduce algo knomial radix 3 block 512K ranks 4 nodes 4 cores 2 transport tcp bytes 8 us 47.58
anchor collective all_reduce algo knomial radix 3 block 512K ranks 4 nodes 4 cores 2 transport tcp bytes 512 us 43.55
anchor collective all_reduce algo knomial radix 3 block 512K ranks 4 nodes 4 cores 2 transport tcp bytes 4K us 74.93
anchor collective all_reduce algo knomial radix 3 block 512K ranks 4 nodes 4 cores 2 transport tcp bytes 16K us 453.8
anchor collective all_reduce algo knomial radix 3 block 512K ranks 4 nodes 4 cores 2 transport tcp bytes 64K us 2653
anchor collective all_reduce algo knomial radix 3 block 512K ranks 4 nodes 4 cores 2 transport tcp bytes 256K us 12970
anchor collective all_reduce algo knomial radix 3 block 512K ranks 4 nodes 4 cores 2 transport tcp bytes 1M us 51640
anchor collective all_reduce algo knomial radix 3 block 512K ranks 4 nodes 4 cores 2 transport tcp bytes 8M us 275500
anchor collective all_reduce algo one_shot radix 0 block 512K ranks 4 nodes 4 cores 2 transport tcp bytes 8 us 51.51
anchor collective all_reduce algo one_shot radix 0 block 512K ranks 4 nodes 4 cores 2 transport tcp bytes 512 us 69.5
anchor collective all_reduce algo one_shot radix 0 block 512K ranks 4 nodes 4 cores 2 transport tcp bytes 4K us 94.28
anchor collective all_reduce algo one_shot radix 0 block 512K ranks 4 nodes 4 cores 2 transport tcp bytes 16K us 431.7
anchor collective all_reduce algo one_shot radix 0 block 512K ranks 4 nodes 4 cores 2 transport tcp bytes 64K us 2034
anchor collective all_reduce algo one_shot radix 0 block 512K ranks 4 nodes 4 cores 2 transport tcp bytes 256K us 9617
anchor collective all_reduce algo one_shot radix 0 block 512K ranks 4 nodes 4 cores 2 transport tcp bytes 1M us 28770
anchor collective all_reduce algo one_shot radix 0 block 512K ranks 4 nodes 4 cores 2 transport tcp bytes 8M us 244400
anchor collective all_reduce algo recursive_doubling radix 0 block 512K ranks 4 nodes 4 cores 2 transport tcp bytes 8 us 33.43
anchor collective all_reduce algo recursive_doubling radix 0 block 512K ranks 4 nodes 4 cores 2 transport tcp bytes 512 us 40.33
anchor collective all_reduce algo recursive_doubling radix 0 block 512K ranks 4 nodes 4 cores 2 transport tcp bytes 4K us 70.51
anchor collective all_reduce algo recursive_doubling radix 0 block 512K ranks 4 nodes 4 cores 2 transport tcp bytes 16K us 226.6
anchor collective all_reduce algo recursive_doubling radix 0 block 512K ranks 4 nodes 4 cores 2 transport tcp bytes 64K us 1080
anchor collective all_reduce algo recursive_doubling radix 0 block 512K ranks 4 nodes 4 cores 2 transport tcp bytes 256K us 4611
anchor collective all_reduce algo recursive_doubling radix 0 block 512K ranks 4 nodes 4 cores 2 transport tcp bytes 1M us 18990
anchor collective all_reduce algo recursive_doubling radix 0 block 512K ranks 4 nodes 4 cores 2 transport tcp bytes 8M us 160000
anchor collective all_reduce algo recursive_multiplying radix 0 block 512K ranks 4 nodes 4 cores 2 transport tcp bytes 8 us 55.52
anchor collective all_reduce algo recursive_multiplying radix 0 block 512K ranks 4 nodes 4 cores 2 transport tcp bytes 512 us 61.78
anchor collective all_reduce algo recursive_multiplying radix 0 block 512K ranks 4 nodes 4 cores 2 transport tcp bytes 4K us 92.47
anchor collective all_reduce algo recursive_multiplying radix 0 block 512K ranks 4 nodes 4 cores 2 transport tcp bytes 16K us 427.5
anchor collective all_reduce algo recursive_multiplying radix 0 block 512K ranks 4 nodes 4 cores 2 transport tcp bytes 64K us 1906
anchor collective all_reduce algo recursive_multiplying radix 0 block 512K ranks 4 nodes 4 cores 2 transport tcp bytes 256K us 8862
anchor collective all_reduce algo recursive_multiplying radix 0 block 512K ranks 4 nodes 4 cores 2 transport tcp bytes 1M us 29870
anchor collective all_reduce algo recursive_multiplying radix 0 block 512K ranks 4 nodes 4 cores 2 transport tcp bytes 8M us 234800
anchor collective all_reduce algo recursive_multiplying radix 3 block 512K ranks 4 nodes 4 cores 2 transport tcp bytes 8 us 35.49
anchor collective all_reduce algo recursive_multiplying radix 3 block 512K ranks 4 nodes 4 cores 2 transport tcp bytes 512 us 47.9
anchor collective all_reduce algo recursive_multiplying radix 3 block 512K ranks 4 nodes 4 cores 2 transport tcp bytes 4K us 64.48
anchor collective all_reduce algo recursive_multiplying radix 3 block 512K ranks 4 nodes 4 cores 2 transport tcp bytes 16K us 231.3
anchor collective all_reduce algo recursive_multiplying radix 3 block 512K ranks 4 nodes 4 cores 2 transport tcp bytes 64K us 1072
anchor collective all_reduce algo recursive_multiplying radix 3 block 512K ranks 4 nodes 4 cores 2 transport tcp bytes 256K us 4528
anchor collective all_reduce algo recursive_multiplying radix 3 block 512K ranks 4 nodes 4 cores 2 transport tcp bytes 1M us 18500
anchor collective all_reduce algo recursive_multiplying radix 3 block 512K ranks 4 nodes 4 cores 2 transport tcp bytes 8M us 172500
anchor collective all_reduce algo ring radix 0 block 256K ranks 4 nodes 4 cores 2 transport tcp bytes 8M us 108500
anchor collective all_reduce algo ring radix 0 block 512K ranks 4 nodes 4 cores 2 transport tcp bytes 8 us 66.47
anchor collective all_reduce algo ring radix 0 block 512K ranks 4 nodes 4 cores 2 transport tcp bytes 512 us 137.7
anchor collective all_reduce algo ring radix 0 block 512K ranks 4 nodes 4 cores 2 transport tcp bytes 4K us 165.3
anchor collective all_reduce algo ring radix 0 block 512K ranks 4 nodes 4 cores 2 transport tcp bytes 16K us 202.7
anchor collective all_reduce algo ring radix 0 block 512K ranks 4 nodes 4 cores 2 transport tcp bytes 64K us 790.5
anchor collective all_reduce algo ring radix 0 block 512K ranks 4 nodes 4 cores 2 transport tcp bytes 256K us 3265
anchor collective all_reduce algo ring radix 0 block 512K ranks 4 nodes 4 cores 2 transport tcp bytes 1M us 13510
anchor collective all_reduce algo ring radix 0 block 512K ranks 4 nodes 4 cores 2 transport tcp bytes 8M us 108200
anchor collective all_reduce algo ring radix 0 block 1M ranks 4 nodes 4 cores 2 transport tcp bytes 8M us 110200
anchor collective all_reduce algo ring radix 0 block 2M ranks 4 nodes 4 cores 2 transport tcp bytes 8M us 110300
anchor collective all_reduce algo star radix 0 block 512K ranks 4 nodes 4 cores 2 transport tcp bytes 8 us 44.63
anchor collective all_reduce algo star radix 0 block 512K ranks 4 nodes 4 cores 2 transport tcp bytes 512 us 52.3
anchor collective all_reduce algo star radix 0 block 512K ranks 4 nodes 4 cores 2 transport tcp bytes 4K us 74.08
anchor collective all_reduce algo star radix 0 block 512K ranks 4 nodes 4 cores 2 transport tcp bytes 16K us 460.6
anchor collective all_reduce algo star radix 0 block 512K ranks 4 nodes 4 cores 2 transport tcp bytes 64K us 2595
anchor collective all_reduce algo star radix 0 block 512K ranks 4 nodes 4 cores 2 transport tcp bytes 256K us 13020
anchor collective all_reduce algo star radix 0 block 512K ranks 4 nodes 4 cores 2 transport tcp bytes 1M us 51980
anchor collective all_reduce algo star radix 0 block 512K ranks 4 nodes 4 cores 2 transport tcp bytes 8M us 318700
anchor collective broadcast algo binary_tree radix 0 block 512K ranks 4 nodes 4 cores 2 transport tcp bytes 8 us 43.11
anchor collective broadcast algo binary_tree radix 0 block 512K ranks 4 nodes 4 cores 2 transport tcp bytes 16K us 252.4
anchor collective broadcast algo binary_tree radix 0 block 512K ranks 4 nodes 4 cores 2 transport tcp bytes 1M us 21630
anchor collective broadcast algo chain radix 0 block 512K ranks 4 nodes 4 cores 2 transport tcp bytes 8 us 80.57
anchor collective broadcast algo chain radix 0 block 512K ranks 4 nodes 4 cores 2 transport tcp bytes 16K us 169.2
anchor collective broadcast algo chain radix 0 block 512K ranks 4 nodes 4 cores 2 transport tcp bytes 1M us 10690
anchor collective broadcast algo double_tree radix 0 block 512K ranks 4 nodes 4 cores 2 transport tcp bytes 8 us 57.49
anchor collective broadcast algo double_tree radix 0 block 512K ranks 4 nodes 4 cores 2 transport tcp bytes 16K us 106.6
anchor collective broadcast algo double_tree radix 0 block 512K ranks 4 nodes 4 cores 2 transport tcp bytes 1M us 17750
anchor collective broadcast algo knomial radix 0 block 512K ranks 4 nodes 4 cores 2 transport tcp bytes 8 us 27.82
anchor collective broadcast algo knomial radix 0 block 512K ranks 4 nodes 4 cores 2 transport tcp bytes 16K us 371.7
anchor collective broadcast algo knomial radix 0 block 512K ranks 4 nodes 4 cores 2 transport tcp bytes 1M us 26190
anchor collective broadcast algo scatter_allgather radix 0 block 512K ranks 4 nodes 4 cores 2 transport tcp bytes 8 us 56.63
anchor collective broadcast algo scatter_allgather radix 0 block 512K ranks 4 nodes 4 cores 2 transport tcp bytes 16K us 188.9
anchor collective broadcast algo scatter_allgather radix 0 block 512K ranks 4 nodes 4 cores 2 transport tcp bytes 1M us 17680
anchor collective broadcast algo star radix 0 block 512K ranks 4 nodes 4 cores 2 transport tcp bytes 8 us 26.86
anchor collective broadcast algo star radix 0 block 512K ranks 4 nodes 4 cores 2 transport tcp bytes 16K us 374.7
anchor collective broadcast algo star radix 0 block 512K ranks 4 nodes 4 cores 2 transport tcp bytes 1M us 26010
anchor collective reduce_scatter algo circulant radix 0 block 512K ranks 4 nodes 4 cores 2 transport tcp bytes 8 us 46.4
anchor collective reduce_scatter algo circulant radix 0 block 512K ranks 4 nodes 4 cores 2 transport tcp bytes 4K us 105.5
anchor collective reduce_scatter algo circulant radix 0 block 512K ranks 4 nodes 4 cores 2 transport tcp bytes 128K us 3447
anchor collective reduce_scatter algo direct radix 0 block 512K ranks 4 nodes 4 cores 2 transport tcp bytes 8 us 63.16
anchor collective reduce_scatter algo direct radix 0 block 512K ranks 4 nodes 4 cores 2 transport tcp bytes 4K us 106
anchor collective reduce_scatter algo direct radix 0 block 512K ranks 4 nodes 4 cores 2 transport tcp bytes 128K us 4074
anchor collective reduce_scatter algo ring radix 0 block 512K ranks 4 nodes 4 cores 2 transport tcp bytes 8 us 80.52
anchor collective reduce_scatter algo ring radix 0 block 512K ranks 4 nodes 4 cores 2 transport tcp bytes 4K us 107.3
anchor collective reduce_scatter algo ring radix 0 block 512K ranks 4 nodes 4 cores 2 transport tcp bytes 128K us 3346
anchor collective all_gather algo circulant radix 0 block 512K ranks 4 nodes 4 cores 2 transport tcp bytes 8 us 58.26
anchor collective all_gather algo circulant radix 0 block 512K ranks 4 nodes 4 cores 2 transport tcp bytes 4K us 105.1
anchor collective all_gather algo circulant radix 0 block 512K ranks 4 nodes 4 cores 2 transport tcp bytes 128K us 4609
anchor collective all_gather algo direct radix 0 block 512K ranks 4 nodes 4 cores 2 transport tcp bytes 8 us 68.35
anchor collective all_gather algo direct radix 0 block 512K ranks 4 nodes 4 cores 2 transport tcp bytes 4K us 105.9
anchor collective all_gather algo direct radix 0 block 512K ranks 4 nodes 4 cores 2 transport tcp bytes 128K us 3879
anchor collective all_gather algo ring radix 0 block 512K ranks 4 nodes 4 cores 2 transport tcp bytes 8 us 87.38
anchor collective all_gather algo ring radix 0 block 512K ranks 4 nodes 4 cores 2 transport tcp bytes 4K us 106.5
anchor collective all_gather algo ring radix 0 block 512K ranks 4 nodes 4 cores 2 transport tcp bytes 128K us 3315
end
